package collectives_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/cuda"
	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// standInGPUs returns simulated GPUs and an NCCL that works on the CPU.
func standInGPUs(t *testing.T, n int) (devices []kernels.Device, nccl *cuda.NCCL) {
	t.Helper()
	standin.Use(t, kernels.CUDASource(), n)
	for i := range n {
		d, err := kernels.NewCUDA(kernels.CUDAConfig{Local: i, Own: true})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && sameGPU(d, devices[0]) {
			t.Skip("skipped: needs ", n, " GPUs")
		}
		devices = append(devices, d)
	}
	lib, err := cuda.OpenNCCL()
	if err != nil {
		t.Fatal(err)
	}
	return devices, lib
}

func sameGPU(a, b kernels.Device) bool {
	x, _ := kernels.GPU(a)
	y, _ := kernels.GPU(b)
	return x == y
}

// TestNCCLAlone: a single rank has a communicator, which is aborted and made again.
func TestNCCLAlone(t *testing.T) {
	devices, lib := standInGPUs(t, 1)
	r := rand.New(rand.NewPCG(7, 8))
	for generation := range uint64(3) {
		w, errs := meet(t, generation+1, devices, collectives.NCCLOptions{Library: lib, Native: generation == 1})
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		w.checkAllReduce(r, 5000, true)
		w.checkAllToAllV(r)
		w.close()
	}
}

// gpuWorld is a set of ranks with a GPU each.
type gpuWorld struct {
	t       *testing.T
	eps     []transport.Endpoint
	devices []kernels.Device
	streams []kernels.Stream
	comms   []*collectives.Comm
	buffers [][]kernels.Buffer
}

// meet connects the ranks. errs are the results of UseNCCL.
func meet(t *testing.T, generation uint64, devices []kernels.Device, o collectives.NCCLOptions) (w *gpuWorld, errs []error) {
	n := len(devices)
	w = &gpuWorld{t: t, eps: transport.NewMem(env.Real(), n, generation), devices: devices, buffers: make([][]kernels.Buffer, n)}
	for r, d := range devices {
		w.streams = append(w.streams, d.Stream(1))
		w.comms = append(w.comms, collectives.New(env.Real(), w.eps[r], 5, d, w.streams[r]))
	}
	return w, w.all(func(r int) error { return w.comms[r].UseNCCL(o) })
}

// all calls f for all ranks concurrently.
func (w *gpuWorld) all(f func(rank int) error) []error {
	w.t.Helper()
	errs, done := make([]error, len(w.devices)), make(chan int)
	for r := range w.devices {
		go func() {
			errs[r] = f(r)
			done <- r
		}()
	}
	limit := time.After(20 * time.Second)
	for range w.devices {
		select {
		case <-done:
		case <-limit:
			panic("a rank hangs")
		}
	}
	return errs
}

func (w *gpuWorld) ok(f func(rank int) error) {
	w.t.Helper()
	if err := errors.Join(w.all(f)...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *gpuWorld) close() {
	for _, ep := range w.eps {
		_ = ep.Close()
	}
	for r, c := range w.comms {
		c.Close()
		w.streams[r].Close()
		for _, b := range w.buffers[r] {
			w.devices[r].Free(b)
		}
	}
}

// put copies bytes to a rank's GPU.
func (w *gpuWorld) put(rank int, p []byte) kernels.Buffer {
	w.t.Helper()
	if len(p) == 0 {
		return kernels.Buffer{}
	}
	b, err := w.devices[rank].Alloc(len(p), kernels.Working)
	if err != nil {
		w.t.Fatal(err)
	}
	w.buffers[rank] = append(w.buffers[rank], b)
	w.streams[rank].Upload(b, p)
	if err := w.streams[rank].Sync(); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *gpuWorld) get(rank int, b kernels.Buffer) []byte {
	w.t.Helper()
	p := make([]byte, b.Bytes())
	w.streams[rank].Download(p, b)
	if err := w.streams[rank].Sync(); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *gpuWorld) checkAllToAllV(r *rand.Rand) {
	w.t.Helper()
	n := len(w.devices)
	send, receive := make([][]int, n), make([][]int, n)
	for i := range n {
		send[i], receive[i] = make([]int, n), make([]int, n)
	}
	var src, dst []kernels.Buffer
	var sent []kernels.Buffer
	for from := range n {
		for to := range n {
			if send[from][to] = 4 * randomLength(r, 5000); from == 1 && r.IntN(2) == 0 {
				send[from][to] = 0 // a rank that sends nothing
			}
		}
		sent = append(sent, randomBuffer(r, total(send[from])))
		src = append(src, w.put(from, sent[from].Host()))
	}
	for to := range n {
		for from := range n {
			receive[to][from] = send[from][to]
		}
		dst = append(dst, w.put(to, make([]byte, total(receive[to]))))
	}
	w.ok(func(i int) error { return w.comms[i].AllToAllV(dst[i], receive[i], src[i], send[i]).Wait() })
	for to := range n {
		got, at := w.get(to, dst[to]), 0
		for from, k := range receive[to] {
			if !bytes.Equal(got[at:at+k], cut(sent[from], send[from], to)) {
				w.t.Fatalf("part of %d bytes from rank %d to rank %d differs", k, from, to)
			}
			at += k
		}
	}
}

// checkAllReduce compares with the sum in rank order, either bit for bit or
// approximately.
func (w *gpuWorld) checkAllReduce(r *rand.Rand, floats int, exact bool) {
	w.t.Helper()
	want := make([]float32, floats)
	var b []kernels.Buffer
	for rank := range w.devices {
		mine := make([]float32, floats)
		for i := range mine {
			mine[i] = float32(math.Ldexp(r.Float64()-0.5, r.IntN(30)))
			want[i] += mine[i]
		}
		b = append(b, w.put(rank, kernels.BytesOf(mine)))
	}
	w.ok(func(i int) error { return w.comms[i].AllReduce(b[i]).Wait() })
	for rank := range w.devices {
		got := kernels.HostView[float32](kernels.HostBuffer(w.get(rank, b[rank])))
		for i, x := range want {
			if exact && math.Float32bits(got[i]) != math.Float32bits(x) || !(math.Abs(float64(got[i]-x)) <= 1e3) {
				w.t.Fatalf("rank %d, float %d of %d: %g, want %g", rank, i, floats, got[i], x)
			}
		}
	}
}

// TestNCCL: data sent from GPU to GPU arrives, and sums equal those of the CPU bit for
// bit.
func TestNCCL(t *testing.T) {
	devices, lib := standInGPUs(t, 4)
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for n := 2; n <= 4; n++ {
		w, errs := meet(t, 1, devices[:n], collectives.NCCLOptions{Library: lib})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for range 8 {
			w.checkAllToAllV(r)
			w.checkAllReduce(r, 1+r.IntN(5000), true)
		}
		w.checkAllReduce(r, 1, true)
		// Buffers of the host still go over the endpoint.
		all := make([]uint64, n*n)
		w.ok(func(i int) error {
			return w.comms[i].AllGather(kernels.HostBuffer(all[i*n:(i+1)*n]), kernels.HostBuffer([]uint64{uint64(i + 1)})).Wait()
		})
		if all[n-1] != uint64(n) || all[0] != 1 {
			t.Errorf("gathered %v", all)
		}
		w.close()

		w, errs = meet(t, 2, devices[:n], collectives.NCCLOptions{Library: lib, Native: true})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		w.checkAllReduce(r, 5000, false)
		w.close()
	}
}

// TestNCCLLoss: the loss of a rank ends the operation in which others wait for it. After
// recovery there are new communicators.
func TestNCCLLoss(t *testing.T) {
	devices, lib := standInGPUs(t, 3)
	r := rand.New(rand.NewPCG(3, 4))
	o := collectives.NCCLOptions{Library: lib}
	for generation := range uint64(3) {
		w, errs := meet(t, generation+1, devices, o)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		w.checkAllReduce(r, 3000, true)
		b := []kernels.Buffer{w.put(0, make([]byte, 4000)), w.put(1, make([]byte, 4000))}
		errs = w.all(func(i int) error {
			if i == 2 {
				time.Sleep(20 * time.Millisecond)
				return w.eps[2].Close()
			}
			return w.comms[i].AllReduce(b[i]).Wait()
		})
		for i, err := range errs[:2] {
			if lost := (*transport.PeerLost)(nil); !errors.As(err, &lost) || lost.Rank != 2 {
				t.Errorf("rank %d: %v", i, err)
			}
		}
		if err := w.comms[0].AllReduce(b[0]).Wait(); err == nil {
			t.Error("an operation succeeded after the communicator was aborted")
		}
		w.close()
	}
}

// TestNCCLLossBefore: the loss of a rank while communicators are made is also noticed.
func TestNCCLLossBefore(t *testing.T) {
	devices, lib := standInGPUs(t, 3)
	eps := transport.NewMem(env.Real(), 3, 1)
	w := &gpuWorld{t: t, eps: eps, devices: devices, buffers: make([][]kernels.Buffer, 3)}
	for r, d := range devices {
		w.streams = append(w.streams, d.Stream(1))
		w.comms = append(w.comms, collectives.New(env.Real(), eps[r], 5, d, w.streams[r]))
	}
	errs := w.all(func(i int) error {
		if i == 2 { // it has received the ID, and dies
			var id cuda.ID
			_ = w.comms[2].Broadcast(kernels.HostBuffer(id[:]), 0).Wait()
			return eps[2].Close()
		}
		return w.comms[i].UseNCCL(collectives.NCCLOptions{Library: lib})
	})
	for i, err := range errs[:2] {
		if !errors.As(err, new(*transport.PeerLost)) {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	w.close()
}

// TestNCCLFails: an error of NCCL ends the operation on all ranks and is reported. A rank whose communicator
// has the error ends its endpoint before it aborts: the abort may wait for its peers.
func TestNCCLFails(t *testing.T) {
	devices, lib := standInGPUs(t, 3)
	t.Setenv("ECREC_STANDIN_NCCL_FAIL", "1:2")
	t.Setenv("ECREC_STANDIN_NCCL_ABORT_WAITS", "1")
	w, errs := meet(t, 1, devices, collectives.NCCLOptions{Library: lib})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	w.checkAllReduce(r, 100, true) // two operations
	b := []kernels.Buffer{w.put(0, make([]byte, 400)), w.put(1, make([]byte, 400)), w.put(2, make([]byte, 400))}
	errs = w.all(func(i int) error { return w.comms[i].AllReduce(b[i]).Wait() })
	if errs[1] == nil || !strings.Contains(errs[1].Error(), "remote process exited") {
		t.Errorf("rank 1: %v", errs[1])
	}
	for _, i := range []int{0, 2} {
		if !errors.As(errs[i], new(*transport.PeerLost)) {
			t.Errorf("rank %d: %v", i, errs[i])
		}
	}
	w.close()
}
