package kernels

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ecrec/ecrec/internal/cuda"
)

// CUDAConfig says how a GPU is used.
type CUDAConfig struct {
	// Local is the rank's place among those of its machine: they take its GPUs by turns.
	Local int
	// Own says that Shared memory is the GPU's: nobody but itself and other GPUs reads it.
	Own bool
	// Keep has memory that is freed kept until Reclaim: to give it back waits for all that
	// the GPU does, exchanges with others included, which may wait for this one.
	Keep bool
	// BLAS names what computes matrix products: "exact" (also ""), with the CPU's bits, or
	// cuBLAS: "cublas" in float32, "cublas-tf32", "cublas-bf16", whose repeats have the same
	// bits on one kind of GPU.
	BLAS string
}

// cudaDevice is the CUDA backend's Device.
//
// Working, Sparse and Rows memory is the GPU's. Staging and Sent memory is the host's, and so
// is Shared but where it is said to be the GPU's own: the GPU reads and writes it over its bus.
type cudaDevice struct {
	*cuda.Context
	code *cudaCode
	own  bool
	far  bool // Rows memory is the host's

	blas    string
	cublas  *cuda.CUBLAS // nil: exact
	compute cuda.Compute

	keep   bool
	mu     sync.Mutex
	allocs map[unsafe.Pointer]Buffer
	kept   []Buffer     // freed, and not given back
	clear  *cuda.Stream // of Alloc, under mu
}

// NoGPU says that this machine, or this build, cannot use a GPU.
type NoGPU = cuda.Missing

// FindGPU returns nil where there is a driver and a GPU, else a *NoGPU.
func FindGPU() error {
	if _, err := cuda.Open(); err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	return nil
}

// NewCUDA returns the CUDA backend, with all kernels compiled, or a *NoGPU.
func NewCUDA(o CUDAConfig) (Device, error) { return newCUDA(o) }

func newCUDA(o CUDAConfig) (*cudaDevice, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	n, err := driver.Count()
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	ctx, err := driver.Context(o.Local % n)
	if err != nil {
		return nil, fmt.Errorf("kernels: GPU %d: %w", o.Local%n, err)
	}
	d := &cudaDevice{Context: ctx, own: o.Own, keep: o.Keep, allocs: make(map[unsafe.Pointer]Buffer)}
	if err := d.openBLAS(o.BLAS); err != nil {
		ctx.Close()
		return nil, err
	}
	if d.code, err = loadCUDA(ctx); err != nil {
		ctx.Close()
		return nil, fmt.Errorf("kernels: kernels for %s: %w", ctx.Name, err)
	}
	if d.clear, err = ctx.Stream(); err != nil {
		ctx.Close()
		return nil, fmt.Errorf("kernels: %w", err)
	}
	return d, nil
}

func (d *cudaDevice) Name() string {
	name := "cuda " + d.Arch + " " + d.Context.Name
	if d.blas != "" {
		name += " " + d.blas
	}
	if d.far {
		name += " with rows in the host's memory"
	}
	return name
}

func (d *cudaDevice) Alloc(bytes int, use Use) (Buffer, error) {
	b := Buffer{bytes: bytes, host: d.onHost(use), device: true}
	if bytes < 0 {
		return Buffer{}, fmt.Errorf("kernels: cannot allocate %d bytes", bytes)
	}
	if bytes == 0 {
		return b, nil
	}
	var err error
	where := d.Context.Name
	if b.host {
		where = "pinned memory of the host"
		b.ptr, err = d.AllocHost(bytes)
	} else {
		b.ptr, err = d.Context.Alloc(bytes)
	}
	if failed := (*cuda.Failure)(nil); !b.host && errors.As(err, &failed) && failed.NoMemory() {
		free, _ := d.Context.Free()
		return Buffer{}, fmt.Errorf("kernels: %d bytes of %s, of which %d are free: %w; use more ranks on more GPUs, or a smaller model", bytes, where, free, err)
	}
	if err != nil {
		return Buffer{}, fmt.Errorf("kernels: %d bytes of %s: %w", bytes, where, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allocs[b.ptr] = b
	if use == Rows {
		return b, nil
	}
	if err := d.clear.Clear(b.ptr, bytes); err != nil {
		return b, err
	}
	return b, d.clear.Sync()
}

// onHost reports whether memory for a use is the host's.
func (d *cudaDevice) onHost(use Use) bool {
	switch use {
	case Staging, Sent:
		return true
	case Shared:
		return !d.own
	case Rows:
		return d.far
	}
	return false
}

// GPURoom is how many bytes of its GPU are a process's share, of so many on this machine that
// take GPUs by turns, and how many are free now: both without what is left to the driver.
// Not ok for other devices than GPUs.
func GPURoom(d Device, processes int) (share, free int64, ok bool) {
	c, ok := d.(*cudaDevice)
	if !ok {
		return 0, 0, false
	}
	n, err := c.Count()
	if err != nil {
		return 0, 0, false
	}
	if free, err = c.Context.Free(); err != nil {
		return 0, 0, false
	}
	driver := c.Memory / driverShare
	return c.Memory/int64((processes+n-1)/n) - driver, free - driver, true
}

// driverShare is the part of a GPU's memory that the driver and NCCL may have.
const driverShare = 32

// KeepRowsOnHost has a CUDA backend take Rows memory from the host from now on, pinned: rows
// for which the GPU has no room. It reads and writes them over its bus.
func KeepRowsOnHost(d Device) {
	if c, ok := d.(*cudaDevice); ok {
		c.far = true
	}
}

func (d *cudaDevice) Free(b Buffer) {
	if b.bytes == 0 {
		return
	}
	d.mu.Lock()
	a, ok := d.allocs[b.ptr]
	delete(d.allocs, b.ptr)
	d.mu.Unlock()
	if !ok || a.bytes != b.bytes {
		panic(fmt.Sprintf("kernels: free of %d bytes at %p, which is no whole allocation", b.bytes, b.ptr))
	}
	if d.keep {
		d.mu.Lock()
		d.kept = append(d.kept, a)
		d.mu.Unlock()
		return
	}
	d.release(a)
}

func (d *cudaDevice) release(b Buffer) {
	// What fails here has failed before, and was told then.
	if b.host {
		_ = d.ReleaseHost(b.ptr)
	} else {
		_ = d.Release(b.ptr)
	}
}

// Reclaim gives back what was freed on a device that keeps it, when nothing is under way.
func Reclaim(d Device) {
	c, ok := d.(*cudaDevice)
	if !ok {
		return
	}
	c.mu.Lock()
	kept := c.kept
	c.kept = nil
	c.mu.Unlock()
	for _, b := range kept {
		c.release(b)
	}
}

// Stream makes a stream of the GPU; threads are the CPU's and mean nothing to it.
func (d *cudaDevice) Stream(int) Stream {
	s := &cudaStream{d: d}
	var err error
	if s.s, err = d.Context.Stream(); err == nil {
		s.fault, err = d.Alloc(8, Staging)
	}
	if err == nil && d.cublas != nil {
		s.products, err = d.Products(d.cublas, s.s, d.compute)
	}
	s.fail(err)
	return s
}
