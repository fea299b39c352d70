package collectives_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

func (g *group) checkAllToAll(t *testing.T, r *rand.Rand, size int) {
	t.Helper()
	n := len(g.comms)
	src, dst := make([]kernels.Buffer, n), make([]kernels.Buffer, n)
	for i := range n {
		src[i], dst[i] = randomBuffer(r, n*size), newBuffer(n*size)
	}
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle { return c.AllToAll(dst[i], src[i]) })
	for from := range n {
		for to := range n {
			if got, want := dst[to].Slice(from*size, size).Host(), src[from].Slice(to*size, size).Host(); !bytes.Equal(got, want) {
				t.Fatalf("%d ranks: rank %d received %x from rank %d, which sent %x", n, to, got, from, want)
			}
		}
	}
}

// TestForwardedParts: parts arrive, forwarded and sent directly, for any number of ranks and any length
// around the limits.
func TestForwardedParts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, from := range []int{2, 1 << 20} { // forwarded, and direct
		undo := collectives.BruckFrom(from)
		for n := 1; n <= 17; n++ {
			g := newGroup(t, faulty(t, n, seed, "delay(100us, p=0.05)"))
			for range 6 {
				g.checkAllGather(t, r, []int{0, 1, 1 + r.IntN(40), 512, 513}[r.IntN(5)])
				g.checkAllToAll(t, r, []int{0, 1, 4, 8, 1 + r.IntN(16), 17}[r.IntN(6)])
				g.checkAllGatherV(t, r, 600, r.IntN(2) == 0)
				g.checkEqualParts(t, r, 1+r.IntN(100))
			}
			for _, c := range g.comms { // before undo
				c.Close()
			}
		}
		undo()
	}
}

// checkEqualParts checks an AllGatherV of parts of equal length, in place.
func (g *group) checkEqualParts(t *testing.T, r *rand.Rand, size int) {
	t.Helper()
	n := len(g.comms)
	counts, dst := make([]int, n), make([]kernels.Buffer, n)
	var want []byte
	for i := range n {
		counts[i], dst[i] = size, newBuffer(n*size)
		own := randomBuffer(r, size).Host()
		copy(dst[i].Slice(i*size, size).Host(), own)
		want = append(want, own...)
	}
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle {
		return c.AllGatherV(dst[i], counts, dst[i].Slice(i*size, size))
	})
	for i := range n {
		if !bytes.Equal(dst[i].Host(), want) {
			t.Fatalf("rank %d of %d received other bytes", i, n)
		}
	}
}

// TestLostRankWhileForwarding loses rank 1 at each of its messages in turn. Every rank then
// succeeds, or fails with an error that names rank 1, and none hangs.
func TestLostRankWhileForwarding(t *testing.T) {
	defer collectives.BruckFrom(2)()
	const n = 7
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, action := range []string{"die(rank=1", "lose(rank=0, peer=1"} {
		for _, direction := range []string{"send", "recv"} {
			for after := range 10 {
				spec := fmt.Sprintf("%s, %s, after=%d); delay(100us, p=0.1)", action, direction, after)
				for name, start := range map[string]func(c *collectives.Comm) *collectives.Handle{
					"AllGather": func(c *collectives.Comm) *collectives.Handle { return c.AllGather(newBuffer(n*24), newBuffer(24)) },
					"AllToAll":  func(c *collectives.Comm) *collectives.Handle { return c.AllToAll(newBuffer(n*4), newBuffer(n*4)) },
				} {
					t.Run(name+" "+spec, func(t *testing.T) {
						g := newGroup(t, faulty(t, n, seed, spec))
						handles := make([][3]*collectives.Handle, n)
						for r, c := range g.comms {
							for i := range handles[r] {
								handles[r][i] = start(c).Start()
							}
						}
						for r := range n {
							checkLoss(t, r, handles[r][:])
						}
						for _, c := range g.comms {
							c.Close()
						}
					})
				}
			}
		}
	}
}

// sending is an endpoint that counts the messages and bytes that it sends.
type sending struct {
	transport.Endpoint
	messages, bytes atomic.Int64
}

func (s *sending) Send(to int, tag transport.Tag, p []byte) transport.Request {
	s.messages.Add(1)
	s.bytes.Add(int64(len(p)))
	return s.Endpoint.Send(to, tag, p)
}

// TestSentIsAsCounted: each rank sends as many messages and bytes as AllGatherSent and AllToAllSent
// count, which are ceil(log2 n) messages if there are many ranks.
func TestSentIsAsCounted(t *testing.T) {
	for _, n := range []int{1, 2, 3, 11, 12, 16, 33} {
		eps, counts := mem(n), make([]*sending, n)
		for i, ep := range eps {
			counts[i] = &sending{Endpoint: ep}
			eps[i] = counts[i]
		}
		g := newGroup(t, eps)
		check := func(what string, want collectives.Sent, start func(c *collectives.Comm) *collectives.Handle) {
			g.ok(t, func(_ int, c *collectives.Comm) *collectives.Handle { return start(c) })
			for rank, s := range counts {
				if got := (collectives.Sent{Messages: s.messages.Swap(0), Bytes: s.bytes.Swap(0)}); got != want {
					t.Errorf("%s of %d ranks: rank %d sent %+v, want %+v", what, n, rank, got, want)
				}
			}
		}
		for _, size := range []int{0, 24, 512, 513} {
			want, steps := collectives.AllGatherSent(n, size)
			if few := map[int]int{12: 4, 16: 4, 33: 6}[n]; few > 0 && 0 < size && size <= 512 && (want.Messages != int64(few) || steps != few) {
				t.Errorf("AllGather of %d bytes of %d ranks: %d messages in %d steps, want %d", size, n, want.Messages, steps, few)
			}
			check(fmt.Sprintf("AllGather of %d bytes", size), want, func(c *collectives.Comm) *collectives.Handle {
				return c.AllGather(newBuffer(n*size), newBuffer(size))
			})
		}
		for _, size := range []int{0, 4, 8, 16, 17} {
			check(fmt.Sprintf("AllToAll of %d bytes", size), collectives.AllToAllSent(n, size), func(c *collectives.Comm) *collectives.Handle {
				return c.AllToAll(newBuffer(n*size), newBuffer(n*size))
			})
		}
	}
}

// BenchmarkTinyParts compares the two ways at some numbers of ranks.
func BenchmarkTinyParts(b *testing.B) {
	for _, ranks := range []int{4, 8, 12, 16, 32} {
		for name, from := range map[string]int{"direct": 1 << 20, "forwarded": 2} {
			src, dst := make([]kernels.Buffer, ranks), make([]kernels.Buffer, ranks)
			for r := range ranks {
				src[r], dst[r] = newBuffer(24*ranks), newBuffer(24*ranks)
			}
			b.Run(fmt.Sprintf("AllGather/ranks=%d/%s", ranks, name), func(b *testing.B) {
				defer collectives.BruckFrom(from)()
				bench(b, ranks, 24, 1, func(r int, c *collectives.Comm) *collectives.Handle { return c.AllGather(dst[r], src[r].Slice(0, 24)) })
			})
			b.Run(fmt.Sprintf("AllToAll/ranks=%d/%s", ranks, name), func(b *testing.B) {
				defer collectives.BruckFrom(from)()
				bench(b, ranks, 4*ranks, 1, func(r int, c *collectives.Comm) *collectives.Handle {
					return c.AllToAll(dst[r].Slice(0, 4*ranks), src[r].Slice(0, 4*ranks))
				})
			})
		}
	}
}

// The messages of an all-reduce do not grow with the square of the ranks: a segment that is shorter than a chunk is one message.
func TestAllReduceOfManyRanks(t *testing.T) {
	const floats = 4 << 20
	for n := 256; n <= 4096; n *= 2 {
		if s, most := collectives.AllReduceSent(n, 1, floats, false), int64(2*(n-1)*max(1, 4*floats/n>>14)); s.Messages > most {
			t.Errorf("%d ranks: a rank sends %d messages, want %d at most", n, s.Messages, most)
		}
	}
}
