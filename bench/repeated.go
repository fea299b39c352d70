package bench

import (
	"sync"

	"github.com/ecrec/ecrec/kernels"
)

// repeatedPeriod is the physical memory of each large allocation of rows.
const repeatedPeriod = 16 << 20

// repeatedRows is a device whose large allocations of rows are the same 16 MiB again and again. Weights are then meaningless, and a
// job of any size fits into memory. It is for measurements in which nothing depends on weights: which rows move, and when.
type repeatedRows struct {
	kernels.Device
	mu     sync.Mutex
	mapped map[*byte][]byte // by the first byte of the allocation
}

func repeatRows(dev kernels.Device) kernels.Device {
	return &repeatedRows{Device: dev, mapped: map[*byte][]byte{}}
}

func (d *repeatedRows) Alloc(bytes int, use kernels.Use) (kernels.Buffer, error) {
	if use != kernels.Rows && use != kernels.Sparse || bytes <= repeatedPeriod {
		return d.Device.Alloc(bytes, use)
	}
	return d.allocRepeated(bytes, repeatedPeriod)
}

func (d *repeatedRows) allocRepeated(bytes, period int) (b kernels.Buffer, err error) {
	memory, err := mapRepeated(bytes, period)
	if err != nil {
		return b, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mapped[&memory[0]] = memory
	return kernels.HostBuffer(memory[:bytes]), nil
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
