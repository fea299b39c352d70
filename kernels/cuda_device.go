package kernels

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ecrec/ecrec/internal/cuda"
)

// CUDAConfig configures the CUDA backend.
type CUDAConfig struct {
	// Local is the rank's number among the ranks of its machine, which are assigned to its GPUs
	// round-robin.
	Local int
	// Own puts Shared memory on the GPU: only this and other GPUs read it.
	Own bool
	// Keep defers the freeing of memory until Reclaim. Freeing waits for all work of the GPU,
	// including exchanges with other ranks, which may in turn wait for this one.
	Keep bool
	// BLAS names the arithmetic of matrix products. "exact" (also "") and "exact-tc" (products of
	// pieces, on tensor cores) give the bits of a CPU with the same BLAS.
	// "cublas" (float32), "cublas-tf32" and "cublas-bf16" repeat their bits on one kind of GPU
	// only.
	BLAS string
}

// cudaDevice is the CUDA backend's Device.
//
// Working, Sparse and Rows memory is on the GPU. Staging and Sent memory is on the host, where
// the GPU reads and writes it over its bus. So is Shared memory, unless CUDAConfig.Own is set.
type cudaDevice struct {
	*cuda.Context
	code *cudaCode
	own  bool
	far  bool // Rows memory is on the host

	blas    string
	cublas  *cuda.CUBLAS // nil: exact
	compute cuda.Compute

	keep   bool
	mu     sync.Mutex
	allocs map[unsafe.Pointer]Buffer
	kept   []Buffer     // freed by the caller, not yet by the device
	clear  *cuda.Stream // zeroes new memory; guarded by mu
}

// NoGPU is the error that this machine, or this build, cannot use a GPU.
type NoGPU = cuda.Missing

// FindGPU returns nil if there is a driver and a GPU, else a *NoGPU.
func FindGPU() error {
	if _, err := cuda.Open(); err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	return nil
}

// NewCUDA returns the CUDA backend, with all kernels compiled, or a *NoGPU.
func NewCUDA(o CUDAConfig) (Device, error) { return newCUDA(o) }

func newCUDA(o CUDAConfig) (*cudaDevice, error) {
	ctx, code := takePrepared()
	if ctx == nil {
		driver, err := cuda.Open()
		if err != nil {
			return nil, fmt.Errorf("kernels: %w", err)
		}
		n, err := driver.Count()
		if err != nil {
			return nil, fmt.Errorf("kernels: %w", err)
		}
		if ctx, err = driver.Context(o.Local % n); err != nil {
			return nil, fmt.Errorf("kernels: GPU %d: %w", o.Local%n, err)
		}
	}
	d := &cudaDevice{Context: ctx, code: code, own: o.Own, keep: o.Keep, allocs: make(map[unsafe.Pointer]Buffer)}
	err := d.openBLAS(o.BLAS)
	if err == nil && code == nil {
		if d.code, err = loadCUDA(ctx); err != nil {
			err = fmt.Errorf("kernels: kernels for %s: %w", ctx.Name, err)
		}
	}
	if err == nil {
		if d.clear, err = ctx.Stream(); err != nil {
			err = fmt.Errorf("kernels: %w", err)
		}
	}
	if err != nil {
		ctx.Close()
		return nil, err
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
		return Buffer{}, fmt.Errorf("kernels: %d bytes of %s, of which %d are free: %w; use more ranks on more GPUs, or a smaller model",
			bytes, where, free, err)
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

// onHost reports whether memory for a use is on the host.
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

// GPURoom returns the bytes of its GPU that are one process's share, and the bytes that are free
// now. Both exclude the driver's share and scratch of products. processes is the number of processes on this machine,
// which are assigned to GPUs round-robin. ok is false for devices other than GPUs.
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
	if c.blas == exactTC {
		driver += pieceScratch
	}
	return c.Memory/int64((processes+n-1)/n) - driver, free - driver, true
}

// driverShare reserves 1/driverShare of a GPU's memory for the driver and NCCL.
const driverShare = 32

// KeepRowsOnHost makes a CUDA backend allocate Rows memory on the host from now on, pinned. It
// is for rows that do not fit the GPU, which reads and writes them over its bus.
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
		panic(fmt.Sprintf("kernels: free of %d bytes at %p, which is not an allocation", b.bytes, b.ptr))
	}
	if d.keep {
		d.mu.Lock()
		d.kept = append(d.kept, a)
		d.mu.Unlock()
		return
	}
	d.freeMemory(a)
}

func (d *cudaDevice) freeMemory(b Buffer) {
	// An error here is sticky: an earlier call has returned it already.
	if b.host {
		_ = d.ReleaseHost(b.ptr)
	} else {
		_ = d.Release(b.ptr)
	}
}

// Reclaim frees the memory whose freeing CUDAConfig.Keep has deferred. Call it when no
// operation is in progress.
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
		c.freeMemory(b)
	}
}

// Deferred returns how many bytes are freed by their owners and not yet by Reclaim.
func Deferred(d Device) (bytes int64) {
	c, ok := d.(*cudaDevice)
	if !ok {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.kept {
		bytes += int64(b.bytes)
	}
	return bytes
}

// Stream makes a stream of the GPU. It ignores the number of threads, which is for the CPU.
func (d *cudaDevice) Stream(int) Stream {
	s := &cudaStream{d: d}
	s.cudaNorms.s = s
	var err error
	if s.s, err = d.Context.Stream(); err == nil {
		s.fault, err = d.Alloc(8, Staging)
	}
	s.setError(err)
	return s
}
