package bench

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/stream"
)

// streamFloor measures the work that a stream to a folder cannot avoid, on the rows that the job changes. It copies each row of an
// epoch to a frame, and writes full frames to a file. It computes no sum, numbers nothing, and waits for no disk. Its rows have memory
// of their own, in which they follow each other (placedRows).
type streamFloor struct {
	dir        string
	every      int // steps of an epoch
	written    *writtenRows
	owners     []*streamFloorOwner // nil until prepared
	wall, used []float64           // seconds of each block, of a step and in all
}

// streamFloorOwner is the rows of one owner, a frame of them, and their file.
type streamFloorOwner struct {
	dev    kernels.Device
	stream kernels.Stream
	rows   kernels.Matrix
	frame  []byte
	epochs [][]int32
	file   *os.File
}

func newStreamFloor(dir string, every int) *streamFloor {
	return &streamFloor{dir: dir, every: every, written: newWrittenRows(every, 30)}
}

// prepare takes memory and opens files.
func (f *streamFloor) prepare() error {
	f.written.mu.Lock()
	defer f.written.mu.Unlock()
	for rank, epochs := range f.written.epochs {
		dev, err := kernels.NewCPU(kernels.CPUOptions{})
		if err != nil {
			return err
		}
		size := f.written.sizes[rank]
		o := &streamFloorOwner{dev: dev, stream: dev.Stream(1), epochs: epochs}
		f.owners = append(f.owners, o)
		rows, err := dev.Alloc(4*size.rows()*size.stride, kernels.Rows)
		if err != nil {
			return err
		}
		kernels.Populate(rows) // else all of them are the same page of zeros
		o.rows = kernels.Mat(rows, size.rows(), size.stride)
		o.frame = make([]byte, max(stream.MaxPayload, 4*size.stride))
		if o.file, err = os.CreateTemp(f.dir, "floor-*"); err != nil {
			return err
		}
	}
	return f.runEpochs(f.written.keep) // takes memory
}

// runBlock measures a block of steps. Without recorded rows it does nothing.
func (f *streamFloor) runBlock(steps int) error {
	if f.owners == nil {
		if err := f.prepare(); err != nil || len(f.owners) == 0 {
			return err
		}
	}
	began, used := time.Now(), cpuTime()
	if err := f.runEpochs(steps / f.every); err != nil {
		return err
	}
	f.wall = append(f.wall, time.Since(began).Seconds()/float64(steps))
	f.used = append(f.used, (cpuTime()-used).Seconds()/float64(steps))
	return nil
}

// runEpochs runs epochs of all owners, each on a goroutine like a rank.
func (f *streamFloor) runEpochs(n int) error {
	errs := make([]error, len(f.owners))
	var wait sync.WaitGroup
	for i, o := range f.owners {
		wait.Go(func() { errs[i] = o.runEpochs(n) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// runEpochs writes epochs behind each other. Then the file is empty again, as a topic of which nothing is kept.
func (o *streamFloorOwner) runEpochs(n int) error {
	stride := o.rows.Stride
	most := len(o.frame) / (4 * stride)
	for i := range n {
		slots := o.epochs[i%len(o.epochs)]
		for len(slots) > 0 {
			part := slots[:min(most, len(slots))]
			slots = slots[len(part):]
			frame := o.frame[:4*len(part)*stride]
			o.stream.GatherRows(kernels.Mat(kernels.HostBuffer(frame), len(part), stride), o.rows, kernels.HostBuffer(part))
			if _, err := o.file.Write(frame); err != nil {
				return err
			}
		}
	}
	if _, err := o.file.Seek(0, 0); err != nil {
		return err
	}
	return o.file.Truncate(0)
}

// freeAll frees all memory, and removes the files.
func (f *streamFloor) freeAll() error {
	var errs []error
	for _, o := range f.owners {
		if o.rows.Buf.Bytes() > 0 {
			o.dev.Free(o.rows.Buf)
		}
		if o.file != nil {
			errs = append(errs, o.file.Close(), os.Remove(o.file.Name()))
		}
		o.stream.Close()
	}
	f.owners = nil
	return errors.Join(errs...)
}
