package collectives_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// TestTreesReachAllRanks: a broadcast ends with root's bytes, for lengths around chunks and their
// window.
func TestTreesReachAllRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{2, 3, 6, 9, 14} {
		g := newGroup(t, mem(n))
		for _, size := range []int{1, 128 << 10, 128<<10 + 1, 7 * 128 << 10, 9*128<<10 + 5, 20 * 128 << 10} {
			g.checkBroadcast(t, r, size, r.IntN(n))
		}
	}
}

// sharedBuffers returns a buffer for each rank that the others can read in place.
func sharedBuffers(t *testing.T, n, size int, r *rand.Rand) []kernels.Buffer {
	t.Helper()
	dev, all := newDevice(t), make([]kernels.Buffer, n)
	for i := range all {
		b, err := dev.Alloc(size, kernels.Shared)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Free(b) })
		copy(b.Host(), randomBuffer(r, size).Host())
		all[i] = b
	}
	return all
}

// counting is a sending endpoint whose ranks read each other's memory.
type counting struct {
	transport.Viewer
	sent *sending
}

func (c counting) Send(to int, tag transport.Tag, p []byte) transport.Request {
	return c.sent.Send(to, tag, p)
}

// TestBroadcastInPlace: the bytes are not sent. If root's memory cannot be read in place, they are.
func TestBroadcastInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, n := range []int{2, 3, 7} {
		for _, size := range []int{128 << 10, 1 << 20, 2<<20 + 1, 5 << 20} {
			for _, ordinary := range []bool{false, true} {
				eps, counts := mem(n), make([]*sending, n)
				for i, ep := range eps {
					v, ok := ep.(transport.Viewer)
					if !ok {
						t.Fatal("no Viewer")
					}
					counts[i] = &sending{Endpoint: ep}
					eps[i] = counting{v, counts[i]}
				}
				g, root := newGroup(t, eps), r.IntN(n)
				b := sharedBuffers(t, n, size, r)
				if ordinary {
					b[root] = randomBuffer(r, size)
				}
				for range 2 {
					g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle { return c.Broadcast(b[i], root) })
				}
				sent := int64(0)
				for i := range b {
					sent += counts[i].bytes.Load()
					if !bytes.Equal(b[i].Host(), b[root].Host()) {
						t.Fatalf("%d ranks, %d bytes: rank %d received other bytes than root %d sent", n, size, i, root)
					}
				}
				if few := sent < 100*int64(n); few == ordinary {
					t.Errorf("%d ranks, %d bytes, ordinary memory %v: %d bytes were sent", n, size, ordinary, sent)
				}
			}
		}
	}
}

// TestLostRankWhileInPlace loses rank 1 at each of its messages. Every rank then fails with an error
// that names it, or has root's bytes, and none hangs. Root's memory is overwritten as soon as its
// operation is over, as that of a rank that recovers.
func TestLostRankWhileInPlace(t *testing.T) {
	const n, size = 5, 600 << 10 // three pieces
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, root := range []int{0, 1} {
		for _, action := range []string{"die(rank=1", "lose(rank=0, peer=1"} {
			for _, direction := range []string{"send", "recv"} {
				for after := range 9 {
					spec := fmt.Sprintf("%s, %s, after=%d); delay(100us, p=0.1)", action, direction, after)
					t.Run(fmt.Sprintf("root %d %s", root, spec), func(t *testing.T) {
						g := newGroup(t, faulty(t, n, seed, spec))
						b := sharedBuffers(t, n, size, r)
						want := bytes.Clone(b[root].Host())
						checkInPlaceLoss(t, g, b, root, want)
					})
				}
			}
		}
	}
}

func checkInPlaceLoss(t *testing.T, g *group, b []kernels.Buffer, root int, want []byte) {
	t.Helper()
	ended := make(chan int, len(b))
	handles := make([]*collectives.Handle, len(b))
	errs := make([]error, len(b))
	for i, c := range g.comms {
		handles[i] = c.Broadcast(b[i], root).Start()
	}
	for i, h := range handles {
		go func() {
			errs[i] = h.Wait()
			if i == root && !invariant.Enabled { // others may read it, which the race detector reports
				clear(b[i].Host())
			}
			ended <- i
		}()
	}
	limit := time.After(20 * time.Second)
	for range b {
		select {
		case <-ended:
		case <-limit:
			t.Fatal("a rank hangs")
		}
	}
	for i, err := range errs {
		if err == nil && i != root && !bytes.Equal(b[i].Host(), want) {
			t.Errorf("rank %d succeeded with other bytes than root's", i)
		}
	}
}
