package bench

import (
	"sync"

	"github.com/ecrec/ecrec/kernels"
)

// sizes is the memory of a job that keeps sizes only: rows and zeros.
type sizes struct{ rows, zeros *repeated }

// The physical memory of all rows and of all zeros. A job of more ranks takes no more of it.
const (
	rowsPeriod  = 16 << 20
	zerosPeriod = 4 << 20
)

func newSizes() (s sizes, err error) {
	if s.rows, err = newRepeated(rowsPeriod); err == nil {
		s.zeros, err = newRepeated(zerosPeriod)
	}
	return s, err
}

func (s sizes) freeMemory() {
	for _, r := range []*repeated{s.rows, s.zeros} {
		if r != nil {
			r.freeMemory()
		}
	}
}

// repeatedRows is a device in which the memory of large allocations of rows repeats. Weights are then meaningless, and a job of any size
// fits into memory. It is for measurements in which nothing depends on weights: which rows move, and when. In virtual time, in which
// copies take no time, the memory of rows that ranks exchange repeats too: with 64 ranks it took 11 GB.
type repeatedRows struct {
	kernels.Device
	memory  *repeated
	virtual bool
	mu      sync.Mutex
	mapped  map[*byte][]byte // by the first byte of the allocation
}

func (s sizes) wrapDevice(dev kernels.Device, virtual bool) kernels.Device {
	return &repeatedRows{Device: dev, memory: s.rows, virtual: virtual, mapped: map[*byte][]byte{}}
}

func (d *repeatedRows) Alloc(bytes int, use kernels.Use) (b kernels.Buffer, err error) {
	isRows := use == kernels.Rows || use == kernels.Sparse || d.virtual && (use == kernels.Shared || use == kernels.Sent)
	if !isRows || bytes <= rowsPeriod/2 {
		return d.Device.Alloc(bytes, use)
	}
	memory, err := d.memory.mapBytes(bytes)
	if err != nil {
		return b, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mapped[&memory[0]] = memory
	return kernels.HostBuffer(memory[:bytes]), nil
}

// sizeStream does not add up the zeros of dense gradients over ranks: in virtual time that would only delay the result.
type sizeStream struct{ kernels.Stream }

func (sizeStream) Sum(kernels.Buffer, []kernels.Buffer) {}

func (d *repeatedRows) Stream(threads int) kernels.Stream {
	if d.virtual {
		return sizeStream{d.Device.Stream(threads)}
	}
	return d.Device.Stream(threads)
}

func (d *repeatedRows) Free(b kernels.Buffer) {
	if p := b.Host(); len(p) > 0 {
		d.mu.Lock()
		memory, ok := d.mapped[&p[0]]
		delete(d.mapped, &p[0])
		d.mu.Unlock()
		if ok {
			unmapRepeated(memory)
			return
		}
	}
	d.Device.Free(b)
}
