package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

// deal assigns n ranks to processes of each ranks, all on this host.
func deal(tb testing.TB, n, each int) ([]transport.Process, []net.Listener) {
	tb.Helper()
	var processes []transport.Process
	var listeners []net.Listener
	for r := range n {
		if r%each == 0 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = l.Close() })
			listeners = append(listeners, l)
			processes = append(processes, transport.Process{Addr: l.Addr().String(), Host: "here"})
		}
		p := &processes[len(processes)-1]
		p.Ranks = append(p.Ranks, r)
	}
	return processes, listeners
}

func options(processes []transport.Process, self int, l net.Listener) transport.NetOptions {
	return transport.NetOptions{
		Env: env.Real(), Generation: 42, Secret: []byte("swordfish"), Processes: processes, Self: self, Listener: l,
		Heartbeat: 200 * time.Millisecond, Timeout: 10 * time.Second,
	}
}

// joinAll connects a world whose processes are all in this one. eps are in rank order.
func joinAll(tb testing.TB, n, each int, change func(*transport.NetOptions)) []transport.Endpoint {
	tb.Helper()
	processes, listeners := deal(tb, n, each)
	eps := make([]transport.Endpoint, n)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			o := options(processes, i, listeners[i])
			if change != nil {
				change(&o)
			}
			mine, err := transport.Join(o)
			if err != nil {
				tb.Error(err)
				return
			}
			for k, r := range processes[i].Ranks {
				eps[r] = mine[k]
			}
		})
	}
	wg.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	return eps
}

func sealed(o *transport.NetOptions) { o.Secure = transport.SecureOn }

func sealedShare(o *transport.NetOptions) {
	share(o)
	sealed(o)
}

func share(o *transport.NetOptions) { o.SharedMemory = true }

func shareApart(o *transport.NetOptions) {
	share(o)
	o.KeepApart()
}

func tinyBuffers(o *transport.NetOptions) {
	o.Tune(func(c net.Conn) {
		t := c.(*net.TCPConn)
		_, _ = t.SetReadBuffer(32<<10), t.SetWriteBuffer(4096)
	})
}

func tinySealed(o *transport.NetOptions) {
	sealed(o)
	tinyBuffers(o)
}

func TestNet(t *testing.T) {
	for _, each := range []int{1, 2} {
		for _, c := range []struct {
			name   string
			change func(*transport.NetOptions)
		}{{"tcp", nil}, {"sealed", sealed}, {"shm", share}, {"shm apart", shareApart}, {"tiny", tinyBuffers}, {"tiny sealed", tinySealed},
			{"shm sealed", sealedShare}} {
			t.Run(fmt.Sprintf("%s/ranks=%d", c.name, each), func(t *testing.T) {
				if testing.Short() && (each == 2) != strings.HasPrefix(c.name, "shm") {
					t.Skip("long: in short mode each kind runs once")
				}
				transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint { return joinAll(t, n, each, c.change) })
			})
		}
	}
}

// Bytes that a connection does not take at once follow without another frame behind them.
func TestNetWritesTheRest(t *testing.T) {
	for name, change := range map[string]func(*transport.NetOptions){"tcp": tinyBuffers, "sealed": tinySealed} {
		t.Run(name, func(t *testing.T) {
			eps := joinAll(t, 2, 1, func(o *transport.NetOptions) {
				change(o)
				o.Heartbeat = time.Hour // a heartbeat is a frame
			})
			for tag := range transport.Tag(20) {
				sent, got := bytes.Repeat([]byte{byte(tag + 1)}, 64<<10), make([]byte, 64<<10)
				receive := eps[1].Recv(0, tag, got)
				send := eps[0].Send(1, tag, sent)
				if err := errors.Join(receive.Wait(), send.Wait()); err != nil || !bytes.Equal(sent, got) {
					t.Fatalf("message %d: %v, or other bytes", tag, err)
				}
			}
			for _, ep := range eps {
				_ = ep.Close()
			}
		})
	}
}

func TestNetWithDelays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, change := range map[string]func(*transport.NetOptions){"tcp": nil, "shm": share} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && change == nil {
				t.Skip("long")
			}
			transporttest.Run(t, func(t *testing.T, n int) []transport.Endpoint {
				faults, err := transport.ParseFaults(seed, "delay(200us, p=0.2); delay(2ms, p=0.01, recv)")
				if err != nil {
					t.Fatal(err)
				}
				eps := joinAll(t, n, 1, change)
				for i := range eps {
					eps[i] = transport.Wrap(env.Real(), eps[i], faults)
				}
				return eps
			})
		})
	}
}

func BenchmarkNetRoundTrip(b *testing.B) {
	for name, change := range map[string]func(*transport.NetOptions){"tcp": nil, "sealed": sealed, "shm": share} {
		b.Run(name, func(b *testing.B) {
			eps := joinAll(b, 2, 1, change)
			over := make(chan struct{})
			go func() {
				defer close(over)
				p := make([]byte, 64)
				for eps[1].Recv(0, 1, p).Wait() == nil && eps[1].Send(0, 1, p).Wait() == nil {
				}
			}()
			p := make([]byte, 64)
			for b.Loop() {
				r := eps[0].Recv(1, 1, p)
				_ = eps[0].Send(1, 1, p).Wait()
				_ = r.Wait()
			}
			_ = eps[0].Close()
			_ = eps[1].Close()
			<-over
		})
	}
}

// BenchmarkNetStream sends long messages one way.
func BenchmarkNetStream(b *testing.B) {
	for name, change := range map[string]func(*transport.NetOptions){"tcp": nil, "sealed": sealed} {
		b.Run(name, func(b *testing.B) {
			const size = 4 << 20
			eps := joinAll(b, 2, 1, change)
			over := make(chan struct{})
			go func() {
				defer close(over)
				p := make([]byte, size)
				for eps[1].Recv(0, 1, p).Wait() == nil {
				}
			}()
			p := make([]byte, size)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				_ = eps[0].Send(1, 1, p).Wait()
			}
			_ = eps[0].Close()
			_ = eps[1].Close()
			<-over
		})
	}
}
