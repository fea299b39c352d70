package kernels

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ecrec/ecrec/internal/openblas"
)

// CPUOptions choose between CPU backends.
type CPUOptions struct {
	// BLAS names the arithmetic of matrix products: "exact" (also ""), "exact-tc" or "openblas".
	// "exact-tc" are products of pieces, which are slow on a CPU. OpenBLAS is exact only for
	// one CPU model and number of threads.
	BLAS string
	// Poison fills the first 64 MiB of each Rows allocation with NaNs, which no row
	// holds, so that tests detect reads of rows that were never written.
	Poison bool
}

const poisoned = 64 << 20

// cpuDevice is the CPU backend's Device.
type cpuDevice struct {
	isa  isa
	blas *openblas.Library // nil: exact

	pieces bool // products are of pieces
	poison bool

	mu     sync.Mutex
	allocs map[unsafe.Pointer]allocation
}

type allocation struct {
	bytes int
	mapping
}

// NewCPU returns the CPU backend, with the fastest inner loops that this CPU runs.
func NewCPU(opts CPUOptions) (Device, error) {
	return newCPU(opts, detectISA())
}

func newCPU(opts CPUOptions, level isa) (*cpuDevice, error) {
	c := &cpuDevice{isa: level, poison: opts.Poison, allocs: make(map[unsafe.Pointer]allocation)}
	switch opts.BLAS {
	case "", "exact":
	case exactTC:
		c.pieces = true
	case "openblas":
		lib, err := openblas.Open()
		if err != nil {
			return nil, fmt.Errorf("kernels: blas openblas: %w", err)
		}
		c.blas = lib
	default:
		return nil, fmt.Errorf("kernels: blas %q is unknown; want exact, exact-tc or openblas", opts.BLAS)
	}
	return c, nil
}

func (c *cpuDevice) Name() string {
	switch {
	case c.blas != nil:
		return "cpu " + c.isa.String() + " openblas"
	case c.pieces:
		return "cpu " + c.isa.String() + " " + exactTC
	}
	return "cpu " + c.isa.String()
}

func (c *cpuDevice) Alloc(bytes int, use Use) (Buffer, error) {
	if bytes < 0 {
		return Buffer{}, fmt.Errorf("kernels: cannot allocate %d bytes", bytes)
	}
	if bytes == 0 {
		return Buffer{host: true}, nil
	}
	ptr, m, err := mapMemory(bytes, use)
	if err != nil {
		return Buffer{}, err
	}
	b := Buffer{ptr: ptr, bytes: bytes, host: true}
	if c.poison && use == Rows {
		for i := range b.Host()[:min(bytes, poisoned)] {
			b.Host()[i] = 0xff // NaNs
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allocs[ptr] = allocation{bytes, m}
	return b, nil
}

func (c *cpuDevice) Free(b Buffer) {
	if b.bytes == 0 {
		return
	}
	c.mu.Lock()
	a, ok := c.allocs[b.ptr]
	delete(c.allocs, b.ptr)
	c.mu.Unlock()
	if !ok || a.bytes != b.bytes {
		panic(fmt.Sprintf("kernels: free of %d bytes at %p, which is not an allocation", b.bytes, b.ptr))
	}
	a.unmap()
}
