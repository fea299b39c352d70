package transport_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/seal"
	"github.com/ecrec/ecrec/transport"
)

// The number of bytes of a handshake before the first record, by direction.
const (
	dialledBytes  = 93 + 32
	acceptedBytes = 45 + 32
)

// tamper returns the bytes to forward for record n, given the previous record. back sends
// records to the other end.
type tamper func(n int, record, before []byte, back io.Writer) (on []byte)

// relay copies from one end to the other: first the unchanged handshake, then record by
// record.
func relay(to, from net.Conn, handshake int64, f tamper) {
	defer func() { _, _ = to.Close(), from.Close() }()
	if _, err := io.CopyN(to, from, handshake); err != nil {
		return
	}
	var before []byte
	for n := 0; ; n++ {
		record := make([]byte, seal.HeadBytes)
		if _, err := io.ReadFull(from, record); err != nil {
			return
		}
		record = append(record, make([]byte, binary.BigEndian.Uint32(record))...)
		if _, err := io.ReadFull(from, record[seal.HeadBytes:]); err != nil {
			return
		}
		on := record
		if f != nil {
			on = f(n, record, before, from)
		}
		if _, err := to.Write(on); err != nil || on == nil {
			return
		}
		before = record
	}
}

// through joins two processes over a relay that tampers with one direction.
func through(t *testing.T, f tamper, toDialler bool) []transport.Endpoint {
	t.Helper()
	path, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = path.Close() })
	return joinAll(t, 2, 1, func(o *transport.NetOptions) {
		sealed(o)
		if o.Self == 0 {
			return
		}
		addr := o.Processes[0].Addr
		o.Dial = func(string, time.Duration) (net.Conn, error) {
			go func() {
				d, dErr := path.Accept()
				a, aErr := net.Dial("tcp", addr)
				if dErr != nil || aErr != nil {
					t.Error(dErr, aErr)
					return
				}
				there, back := f, tamper(nil)
				if toDialler {
					there, back = nil, f
				}
				go relay(a, d, dialledBytes, there)
				relay(d, a, acceptedBytes, back)
			}()
			return net.Dial("tcp", path.Addr().String())
		}
	})
}

// TestTamperingLosesThePeer puts an attacker between two processes that exchange
// messages. Both lose each other soon, and neither receives a message that was not sent.
func TestTamperingLosesThePeer(t *testing.T) {
	const victim = 20 // the record that is tampered with
	for name, f := range map[string]tamper{
		"change": func(n int, r, _ []byte, _ io.Writer) []byte {
			if n == victim {
				r[len(r)/2] ^= 1
			}
			return r
		},
		"repeat": func(n int, r, before []byte, _ io.Writer) []byte {
			if n == victim {
				return slices.Concat(before, r)
			}
			return r
		},
		"leave out": func(n int, r, _ []byte, _ io.Writer) []byte {
			if n == victim {
				return []byte{}
			}
			return r
		},
		"exchange": func(n int, r, before []byte, _ io.Writer) []byte {
			switch n {
			case victim:
				return []byte{}
			case victim + 1:
				return slices.Concat(r, before)
			}
			return r
		},
		"cut": func(n int, r, _ []byte, _ io.Writer) []byte {
			switch {
			case n == victim:
				return r[:len(r)-1]
			case n > victim:
				return nil
			}
			return r
		},
		"send back": func(n int, r, _ []byte, back io.Writer) []byte {
			if n == victim {
				_, _ = back.Write(r) // the other end may be lost
				return []byte{}
			}
			return r
		},
		"withhold": func(n int, r, _ []byte, _ io.Writer) []byte {
			if n >= victim {
				return []byte{}
			}
			return r
		},
	} {
		for _, toDialler := range []bool{false, true} {
			way := map[bool]string{false: " to the accepting process", true: " to the dialling process"}[toDialler]
			t.Run(name+way, func(t *testing.T) {
				t.Parallel() // most of it is waiting
				eps := through(t, f, toDialler)
				began := time.Now()
				errs := converse(t, eps)
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
				forged := 0
				for rank, err := range errs {
					var lost *transport.PeerLost
					if !errors.As(err, &lost) || lost.Rank != 1-rank {
						t.Errorf("rank %d got %v, want the loss of the other", rank, err)
					}
					if errors.Is(err, transport.ErrForged) {
						forged++
					}
				}
				if silent := name == "cut" || name == "withhold"; (forged == 0) != silent {
					t.Errorf("the ends got %v", errs)
				}
				closeAll(t, eps)
			})
		}
	}
}

// converse makes two ranks send each other messages of many lengths until that fails, and
// checks those received.
func converse(t *testing.T, eps []transport.Endpoint) [2]error {
	var errs [2]error
	var wg sync.WaitGroup
	for rank, ep := range eps {
		wg.Go(func() {
			for i := 0; errs[rank] == nil; i++ {
				size := []int{8, 5000, 200_000}[i%3]
				got := make([]byte, size)
				r := ep.Recv(1-rank, 1, got)
				s := ep.Send(1-rank, 1, bytes.Repeat([]byte{byte(i)}, size))
				err := r.Wait()
				errs[rank] = errors.Join(err, s.Wait())
				if err == nil && !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, size)) {
					t.Errorf("message %d is not what was sent", i)
				}
			}
		})
	}
	wg.Wait()
	return errs
}
