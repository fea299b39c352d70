package predict

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/f32"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// Rows are the embedding rows of all tables, one table after the other.
type Rows interface {
	// CopyRows copies the weights of rows to dst, (len(rows), width).
	CopyRows(dst []float32, rows []int64) error
}

// Lane scores batches of samples on one goroutine.
type Lane struct {
	form  *Form
	most  int
	s     kernels.Stream
	model model.Model

	losses, probs []float32      // of the last batch
	index         kernels.Buffer // an int32 per lookup; it grows
	numbers       []int64        // of the rows that are copied
	copied        []float32      // those rows
}

// NewLane returns a lane for batches of at most most samples. SetDense gives it weights.
func (f *Form) NewLane(most int) (l *Lane, err error) {
	l = &Lane{form: f, most: most, s: f.dev.Stream(1), losses: make([]float32, most), probs: make([]float32, most)}
	c := f.cfg.ModelConfig()
	c.MaxSamples = most
	if l.model, err = model.New(f.dev, l.s, c); err != nil {
		l.s.Close()
		return nil, err
	}
	return l, nil
}

// SetDense sets the dense parameters and the statistics, in the order of Form.DenseNames.
func (l *Lane) SetDense(weights []byte) error {
	p := l.model.Params()
	if want := 4 * p.Floats(); len(weights) != want {
		return fmt.Errorf("the dense part has %d bytes, that of the model %d", len(weights), want)
	}
	l.s.Upload(p.Weights.SliceFloats(0, p.Floats()), weights)
	return l.s.Sync()
}

// Close frees the memory of the lane.
func (l *Lane) Close() {
	l.model.Close()
	l.s.Close()
}

// errNaN is the error of a score that is not a number.
var errNaN = errors.New("a prediction is not a number: the model has diverged, or a field of the row is not finite")

// Score returns the scores of a batch, which are valid until the next call. The losses of samples with a label are in losses.
func (l *Lane) Score(batch *data.RowBatch, from Rows) ([]float32, error) {
	b, n := &batch.Batch, batch.N
	in := model.Batch{Dense: kernels.Mat(kernels.HostBuffer(b.Dense), n, len(b.Dense)/n)}
	if m, ok := from.(*Model); ok {
		in.Rows, in.Index = m.rows, l.indexRows(b)
	} else if err := l.copyLookups(&in, b, from); err != nil {
		return nil, err
	}
	if b.Offsets != nil {
		in.Offsets, in.Weights, in.Mean = kernels.HostBuffer(b.Offsets), kernels.HostBuffer(b.Weights), kernels.HostBuffer(l.form.means)
	}
	logits := l.model.Forward(in)
	if err := l.s.Sync(); err != nil {
		return nil, err
	}
	for i, logit := range kernels.HostView[float32](logits.Buf)[:n] {
		if overflow := logit-logit != 0; overflow { // its probability may be 0 or 1, but its loss is no number
			return nil, fmt.Errorf("row %d of a batch: %w", i+1, errNaN)
		}
		var p, loss float64
		if batch.HasLabel[i] {
			p, loss = f32.CrossEntropy64(float64(logit), float64(b.Labels[i]))
		} else {
			p = f32.Sigmoid64(float64(logit))
		}
		l.probs[i], l.losses[i] = float32(p), float32(loss)
	}
	return l.probs[:n], nil
}

// growIndex makes room for some lookups.
func (l *Lane) growIndex(lookups int) []int32 {
	if 4*lookups > l.index.Bytes() {
		l.index = kernels.HostBuffer(make([]int32, lookups+lookups/4))
	}
	return kernels.HostView[int32](l.index)[:lookups]
}

// indexRows returns the row of each lookup of a batch, for rows in one matrix.
func (l *Lane) indexRows(b *data.Batch) kernels.Buffer {
	index := l.growIndex(len(b.IDs))
	eachLookup(b, l.form.first, func(at int, row int64) { index[at] = int32(row) })
	return l.index.Slice(0, 4*len(b.IDs))
}

// copyLookups copies the row of each lookup of a batch, side by side.
func (l *Lane) copyLookups(in *model.Batch, b *data.Batch, from Rows) error {
	n, width := len(b.IDs), l.form.width
	if cap(l.numbers) < n {
		l.numbers, l.copied = make([]int64, n+n/4), make([]float32, (n+n/4)*width)
	}
	numbers, index := l.numbers[:n], l.growIndex(n)
	eachLookup(b, l.form.first, func(at int, row int64) { numbers[at], index[at] = row, int32(at) })
	copied := l.copied[:n*width]
	in.Rows, in.Index = kernels.Mat(kernels.HostBuffer(copied), n, width), l.index.Slice(0, 4*n)
	return from.CopyRows(copied, numbers)
}

// eachLookup calls do for each lookup of a batch, with its number and its row. first holds the first row of each feature's table.
func eachLookup(b *data.Batch, first []int64, do func(at int, row int64)) {
	features := len(first)
	if b.Offsets == nil {
		for i := range b.N {
			for f, row := range first {
				at := i*features + f
				do(at, row+int64(b.IDs[at]))
			}
		}
		return
	}
	for c, end := range b.Offsets[1:] {
		row := first[c%features]
		for p := b.Offsets[c]; p < end; p++ {
			do(int(p), row+int64(b.IDs[p]))
		}
	}
}
