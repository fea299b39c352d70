package transport

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// receiver is a link whose input is supplied by a test: rank 0 receives from rank 1.
func receiver(tb testing.TB) (*link, []*netRequest) {
	tb.Helper()
	w, err := newNetWorld(&NetOptions{
		Env: env.Real(), Generation: 7, Processes: []Process{{Ranks: []int{0}}, {Ranks: []int{1}}}, Heartbeat: time.Second, Timeout: time.Second,
	})
	if err != nil {
		tb.Fatal(err)
	}
	near, far := net.Pipe()
	tb.Cleanup(func() { _, _ = near.Close(), far.Close() })
	l := newLink(w, 1, near)
	var posted []*netRequest
	for tag, n := range []int{10, 0, 100_000} {
		posted = append(posted, l.postRecv(0, 1, Tag(tag), make([]byte, n)).(*netRequest))
	}
	return l, posted
}

// feed passes bytes to a link, some at a time.
func feed(l *link, b []byte) error {
	for len(b) > 0 {
		want := l.in.nextBuffer()
		if len(want) == 0 {
			panic("a link has no buffer for bytes")
		}
		n := copy(want, b)
		b = b[n:]
		if err := l.in.bytesArrived(n); err != nil {
			return err
		}
	}
	return nil
}

// wire encodes frames, in sequence.
func wire(frames ...controlFrame) []byte {
	var out []byte
	for i, f := range frames {
		if f.generation == 0 {
			f.generation = 7
		}
		f.sequence += uint64(i)
		f.length, f.sum = uint32(len(f.payload)), crc32.Checksum(f.payload, castagnoli)
		var b [headerBytes]byte
		f.encodeHeader(&b)
		out = append(append(out, b[:]...), f.payload...)
	}
	return out
}

// repair corrects a header's checksum.
func repair(b []byte) {
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

func eagerFrame(tag Tag, n int) controlFrame {
	return controlFrame{header{kind: frameEager, from: 1, to: 0, tag: tag}, make([]byte, n)}
}

func TestFramesMatchTheirReceives(t *testing.T) {
	l, posted := receiver(t)
	if err := feed(l, wire(eagerFrame(1, 0), eagerFrame(0, 10),
		controlFrame{header{kind: frameOffer, from: 1, tag: 2, id: 5, arg: 100_000}, nil})); err != nil {
		t.Fatal(err)
	}
	if !posted[0].over.Load() || !posted[1].over.Load() || posted[2].over.Load() {
		t.Fatal("the wrong receives have ended")
	}
	if l.control.len() != 1 || l.control.items[0].kind != frameWant || l.control.items[0].id != 5 {
		t.Fatalf("the offer is answered with %+v", l.control)
	}
}

func TestBrokenFramesEndTheLink(t *testing.T) {
	good := wire(eagerFrame(0, 10))
	corrupt := func(at int) []byte {
		b := append([]byte(nil), good...)
		b[at] ^= 1
		return b
	}
	for name, b := range map[string][]byte{
		"header":                          corrupt(20),
		"payload":                         corrupt(headerBytes + 3),
		"magic":                           corrupt(0),
		"replay":                          append(append([]byte(nil), good...), good...),
		"gap":                             wire(controlFrame{header{kind: frameHeartbeat, sequence: 1}, nil}),
		"newer generation":                wire(controlFrame{header{kind: frameHeartbeat, generation: 8}, nil}),
		"another rank":                    wire(controlFrame{header{kind: frameEager, from: 5, to: 0}, nil}),
		"a local rank":                    wire(controlFrame{header{kind: frameEager, from: 0, to: 1}, nil}),
		"too much credit":                 wire(controlFrame{header{kind: frameCredit, from: 1, arg: 1 << 63}, nil}),
		"credit not sent":                 wire(controlFrame{header{kind: frameCredit, from: 1, arg: 1}, nil}),
		"offer too long":                  wire(controlFrame{header{kind: frameOffer, from: 1, arg: 1 << 60}, nil}),
		"offer with payload":              wire(controlFrame{header{kind: frameOffer, from: 1}, make([]byte, 5)}),
		"eager too long":                  wire(eagerFrame(0, eagerBytes+1)),
		"abort of another process's rank": wire(controlFrame{header{kind: frameAbort, from: 3}, nil}),
	} {
		l, posted := receiver(t)
		err := feed(l, b)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		end(l, err)
		for i, r := range posted {
			if err := r.Wait(); err != nil && !errors.As(err, new(*PeerLost)) {
				t.Errorf("%s: receive %d ends with %v", name, i, err)
			}
		}
	}
}

func end(l *link, err error) {
	l.failWith(err)
	l.in.abandonReceive()
}

func TestOlderGenerationsAreDropped(t *testing.T) {
	l, posted := receiver(t)
	old := eagerFrame(0, 10)
	old.generation = 6
	if err := feed(l, append(wire(old), wire(eagerFrame(0, 10))...)); err != nil {
		t.Fatal(err)
	}
	if n := l.world.stats.StaleFrames.Load(); n != 1 || !posted[0].over.Load() {
		t.Fatalf("%d stale frames counted", n)
	}
}

// TestHeldBytesAreBounded sends more than the receiver has promised to hold.
func TestHeldBytesAreBounded(t *testing.T) {
	l, _ := receiver(t)
	var err error
	for i := 0; err == nil; i++ {
		if i*eagerBytes > MaxHeldBytes {
			t.Fatalf("%d messages of %d bytes are held", i, eagerBytes)
		}
		f := eagerFrame(9, eagerBytes)
		f.sequence = uint64(i)
		err = feed(l, wire(f))
	}
}

// FuzzFrames feeds a link the bytes of a broken or hostile peer. The link neither crashes
// nor hangs, and every receive ends once the link has failed.
func FuzzFrames(f *testing.F) {
	offer := controlFrame{header{kind: frameOffer, from: 1, tag: 2, id: 5, arg: 100_000}, nil}
	data := controlFrame{header{kind: frameData, from: 1, tag: 2, id: 1}, make([]byte, 1000)}
	abort := controlFrame{header{kind: frameAbort, from: 1, id: 1, arg: 7}, []byte("gone")}
	good := wire(eagerFrame(0, 10), eagerFrame(1, 0), eagerFrame(4, 50), offer, data, abort)
	f.Add(good, uint64(0))
	f.Add(good, uint64(1))
	f.Add(good[:len(good)-7], uint64(0))
	f.Add(append(append([]byte(nil), good...), good...), uint64(3))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		l, posted := receiver(t)
		if seed > 0 { // change fields and repair the header's checksum, to pass it
			r := rand.New(rand.NewPCG(seed, 0))
			b = append([]byte(nil), b...)
			for at := 0; at+headerBytes <= len(b); {
				var h header
				if h.decodeHeader((*[headerBytes]byte)(b[at:])) != nil {
					break
				}
				b[at+r.IntN(60)] ^= byte(1 << r.IntN(8))
				repair(b[at : at+headerBytes])
				at += headerBytes + int(h.length)
			}
		}
		err := feed(l, b)
		if err == nil {
			err = errHungUp
		}
		end(l, err)
		for i, r := range posted {
			if !r.over.Load() {
				t.Fatalf("receive %d has not ended", i)
			}
		}
	})
}
