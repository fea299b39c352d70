package collectives_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
)

// bytesBuffer views words as a Buffer of n bytes.
func bytesBuffer(words []uint64, n int) kernels.Buffer {
	return kernels.HostBuffer(words).Slice(0, n)
}

func newBuffer(n int) kernels.Buffer { return bytesBuffer(make([]uint64, n/8+1), n) }

func randomBuffer(r *rand.Rand, n int) kernels.Buffer {
	words := make([]uint64, n/8+1)
	for i := range words {
		words[i] = r.Uint64()
	}
	return bytesBuffer(words, n)
}

func total(counts []int) int {
	sum := 0
	for _, c := range counts {
		sum += c
	}
	return sum
}

// cut returns part r of b.
func cut(b kernels.Buffer, counts []int, r int) []byte {
	return b.Slice(total(counts[:r]), counts[r]).Host()
}

// randomLength is often 0, otherwise at most limit.
func randomLength(r *rand.Rand, limit int) int {
	if r.IntN(4) == 0 {
		return 0
	}
	return r.IntN(r.IntN(limit)+1) + 1
}

func (g *group) checkAllToAllV(t *testing.T, r *rand.Rand, limit int) {
	t.Helper()
	n := len(g.comms)
	send, receive := make([][]int, n), make([][]int, n)
	src, dst := make([]kernels.Buffer, n), make([]kernels.Buffer, n)
	for i := range n {
		send[i], receive[i] = make([]int, n), make([]int, n)
	}
	for from := range n {
		for to := range n {
			send[from][to] = randomLength(r, limit)
			receive[to][from] = send[from][to]
		}
		src[from] = randomBuffer(r, total(send[from]))
	}
	for i := range n {
		dst[i] = newBuffer(total(receive[i]))
	}
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle {
		return c.AllToAllV(dst[i], receive[i], src[i], send[i])
	})
	for from := range n {
		for to := range n {
			if !bytes.Equal(cut(dst[to], receive[to], from), cut(src[from], send[from], to)) {
				t.Fatalf("part of %d bytes from rank %d to rank %d differs", send[from][to], from, to)
			}
		}
	}
}

func (g *group) checkAllGatherV(t *testing.T, r *rand.Rand, limit int, inPlace bool) {
	t.Helper()
	n := len(g.comms)
	counts := make([]int, n)
	for i := range n {
		counts[i] = randomLength(r, limit)
	}
	var want []byte
	src, dst := make([]kernels.Buffer, n), make([]kernels.Buffer, n)
	for i := range n {
		src[i], dst[i] = randomBuffer(r, counts[i]), newBuffer(total(counts))
		want = append(want, src[i].Host()...)
		if inPlace {
			own := dst[i].Slice(total(counts[:i]), counts[i])
			copy(own.Host(), src[i].Host())
			src[i] = own
		}
	}
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle { return c.AllGatherV(dst[i], counts, src[i]) })
	for i := range n {
		if !bytes.Equal(dst[i].Host(), want) {
			t.Fatalf("rank %d received other bytes, counts %v", i, counts)
		}
	}
}

func (g *group) checkAllGather(t *testing.T, r *rand.Rand, size int) {
	t.Helper()
	n := len(g.comms)
	var want []byte
	src, dst := make([]kernels.Buffer, n), make([]kernels.Buffer, n)
	for i := range n {
		src[i], dst[i] = randomBuffer(r, size), newBuffer(n*size)
		want = append(want, src[i].Host()...)
	}
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle { return c.AllGather(dst[i], src[i]) })
	for i := range n {
		if !bytes.Equal(dst[i].Host(), want) {
			t.Fatalf("rank %d received other bytes", i)
		}
	}
}

func (g *group) checkBroadcast(t *testing.T, r *rand.Rand, size, root int) {
	t.Helper()
	b := make([]kernels.Buffer, len(g.comms))
	for i := range b {
		b[i] = randomBuffer(r, size)
	}
	want := append([]byte(nil), b[root].Host()...)
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle { return c.Broadcast(b[i], root) })
	for i := range b {
		if !bytes.Equal(b[i].Host(), want) {
			t.Fatalf("rank %d received other bytes than root %d sent", i, root)
		}
	}
}

func TestExchanges(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 8} {
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
			g := newGroup(t, mem(n))
			r := rand.New(rand.NewPCG(2, uint64(n)))
			for _, limit := range []int{1, 64, 5000, 1 << 20} {
				g.checkAllToAllV(t, r, limit)
				g.checkAllGatherV(t, r, limit, false)
				g.checkAllGatherV(t, r, limit, true)
				g.checkAllGather(t, r, randomLength(r, limit))
				g.checkBroadcast(t, r, randomLength(r, limit), r.IntN(n))
			}
			g.checkBroadcast(t, r, 3<<16+5, n-1) // two chunks
		})
	}
}

// TestAllToAllVOwnPartInPlace: rank 0 sends a word, rank 1 receives it, and the own parts
// are the same memory in dst and src.
func TestAllToAllVOwnPartInPlace(t *testing.T) {
	g := newGroup(t, mem(2))
	words := [2][]uint64{{1, 2}, {3, 4}}
	counts := [2][2][]int{{{8, 0}, {8, 8}}, {{8, 8}, {0, 8}}} // by rank: dst, src
	g.ok(t, func(i int, c *collectives.Comm) *collectives.Handle {
		w := kernels.HostBuffer(words[i])
		dst, src := w.Slice(0, 8), w
		if i == 1 {
			dst, src = w, w.Slice(8, 8)
		}
		return c.AllToAllV(dst, counts[i][0], src, counts[i][1])
	})
	if want := [2][]uint64{{1, 2}, {2, 4}}; fmt.Sprint(words) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", words, want)
	}
}

func TestBarrierWaitsForAll(t *testing.T) {
	for n := 1; n <= 9; n++ {
		g := newGroup(t, mem(n))
		for range 3 {
			late := n - 1
			handles := make([]*collectives.Handle, n)
			done := make(chan int, n)
			for i, c := range g.comms {
				if i != late {
					handles[i] = c.Barrier().Start()
					go func() {
						if err := handles[i].Wait(); err != nil {
							t.Errorf("rank %d: %v", i, err)
						}
						done <- i
					}()
				}
			}
			if len(done) > 0 {
				t.Fatalf("rank %d left the barrier before rank %d entered it", <-done, late)
			}
			if err := g.comms[late].Barrier().Wait(); err != nil {
				t.Fatal(err)
			}
			for range n - 1 {
				<-done
			}
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	g := newGroup(t, mem(2))
	counts := []int{80_000, 80_000}
	var b, c [2]kernels.Buffer
	for r := range b {
		b[r], c[r] = newBuffer(160_000), newBuffer(160_000)
	}
	operations := []func(r int) *collectives.Handle{
		func(r int) *collectives.Handle { return g.comms[r].AllReduce(b[r]) },
		func(r int) *collectives.Handle { return g.comms[r].AllToAllV(b[r], counts, c[r], counts) },
		func(r int) *collectives.Handle { return g.comms[r].AllGatherV(b[r], counts, c[r].Slice(0, 80_000)) },
		func(r int) *collectives.Handle { return g.comms[r].AllGather(b[r], c[r].Slice(0, 80_000)) },
		func(r int) *collectives.Handle { return g.comms[r].AllToAll(b[r], c[r]) },
		func(r int) *collectives.Handle { return g.comms[r].Broadcast(b[r], 1) },
		func(r int) *collectives.Handle { return g.comms[r].Barrier() },
	}
	defer collectives.BruckFrom(2)()
	operations = append(operations,
		func(r int) *collectives.Handle { return g.comms[r].AllGather(b[r].Slice(0, 48), c[r].Slice(0, 24)) },
		func(r int) *collectives.Handle { return g.comms[r].AllToAll(b[r].Slice(0, 8), c[r].Slice(0, 8)) })
	for i, start := range operations {
		allocs := testing.AllocsPerRun(20, func() {
			first, second := start(0).Start(), start(1) // the second runs on this goroutine
			if second.Wait() != nil || first.Wait() != nil {
				t.Error("an operation failed")
			}
		})
		if allocs >= 1 {
			t.Errorf("operation %d allocates %v times", i, allocs)
		}
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

func TestMisusePanics(t *testing.T) {
	g := newGroup(t, mem(1))
	c := g.comms[0]
	b := newBuffer(16)
	h := c.Barrier()
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	mustPanic(t, "waiting twice", func() { _ = h.Wait() })
	started := c.Barrier().Start()
	mustPanic(t, "starting twice", func() { started.Start() })
	if err := started.Wait(); err != nil {
		t.Fatal(err)
	}
	mustPanic(t, "AllReduce of 3 bytes", func() { c.AllReduce(newBuffer(3)) })
	mustPanic(t, "a root that does not exist", func() { c.Broadcast(b, 1) })
	mustPanic(t, "counts of two ranks", func() { c.AllGatherV(b, []int{8, 8}, b) })
	mustPanic(t, "counts that do not add up", func() { c.AllToAllV(b, []int{8}, b, []int{8}) })
	mustPanic(t, "a negative count", func() { c.AllToAllV(b, []int{-1}, b, []int{16}) })
	mustPanic(t, "own parts of two lengths", func() { c.AllToAllV(b.Slice(0, 8), []int{8}, b, []int{16}) })
	mustPanic(t, "an AllToAll of two lengths", func() { c.AllToAll(b.Slice(0, 8), b) })
	mustPanic(t, "a short AllGather", func() { c.AllGather(b.Slice(0, 8), b) })
	c.Close()
	mustPanic(t, "starting after Close", func() { c.Barrier().Start() })
	mustPanic(t, "running after Close", func() { _ = c.Barrier().Wait() })
}
