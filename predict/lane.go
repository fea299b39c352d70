package predict

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/auc"
	"github.com/ecrec/ecrec/internal/f32"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// laneRows is how many rows a lane scores at a time: their activations stay in the cache of a core.
const laneRows = 512

// lane scores rows on one goroutine.
type lane struct {
	m       *Model
	s       kernels.Stream
	model   model.Model
	parser  *data.RowParser // nil: samples of a Source
	parquet bool            // scores are of a Parquet file
	batch   data.RowBatch
	idx     []int64 // scratch

	losses, probs []float32      // of the batch
	index         kernels.Buffer // an int32 per lookup; it grows
}

func newLane(m *Model, parser *data.RowParser, parquet bool) (l *lane, err error) {
	l = &lane{m: m, parser: parser, parquet: parquet, s: m.dev.Stream(1), idx: make([]int64, laneRows)}
	c := m.cfg.ModelConfig()
	c.MaxSamples = laneRows
	if l.model, err = model.New(m.dev, l.s, c); err != nil {
		l.s.Close()
		return nil, err
	}
	p := l.model.Params()
	for _, t := range p.Saved() {
		l.s.Upload(t.Of(p.Weights), kernels.BytesOf(m.dense[t.Name]))
	}
	l.losses, l.probs = make([]float32, laneRows), make([]float32, laneRows)
	l.index = kernels.HostBuffer(make([]int32, laneRows*len(m.first)))
	return l, l.s.Sync()
}

func (l *lane) close() {
	l.model.Close()
	l.s.Close()
}

var errNaN = errors.New("a prediction is not a number: the model has diverged, or a field of the row is not finite")

// scoreBatch scores the rows of the batch. The scores are in probs, the losses of rows with a label in
// losses.
func (l *lane) scoreBatch() error {
	b, n := &l.batch.Batch, l.batch.N
	in := model.Batch{Dense: kernels.Mat(kernels.HostBuffer(b.Dense), n, len(b.Dense)/n), Rows: l.m.rows, Index: l.indexRows(b)}
	if b.Offsets != nil {
		in.Offsets, in.Weights, in.Mean = kernels.HostBuffer(b.Offsets), kernels.HostBuffer(b.Weights), kernels.HostBuffer(l.m.means)
	}
	logits := l.model.Forward(in)
	if err := l.s.Sync(); err != nil {
		return err
	}
	for i, logit := range kernels.HostView[float32](logits.Buf)[:n] {
		var p, loss float64
		if l.batch.HasLabel[i] {
			p, loss = f32.CrossEntropy64(float64(logit), float64(b.Labels[i]))
		} else {
			p = f32.Sigmoid64(float64(logit))
		}
		if p != p {
			return fmt.Errorf("row %d of a batch: %w", i+1, errNaN)
		}
		l.probs[i], l.losses[i] = float32(p), float32(loss)
	}
	return nil
}

// indexRows returns the row of each lookup of a batch.
func (l *lane) indexRows(b *data.Batch) kernels.Buffer {
	if 4*len(b.IDs) > l.index.Bytes() {
		l.index = kernels.HostBuffer(make([]int32, len(b.IDs)+len(b.IDs)/4))
	}
	index, features := kernels.HostView[int32](l.index), len(l.m.first)
	if b.Offsets == nil {
		for i := range b.N {
			for f, first := range l.m.first {
				index[i*features+f] = int32(first + int64(b.IDs[i*features+f]))
			}
		}
	} else {
		for c, end := range b.Offsets[1:] {
			first := l.m.first[c%features]
			for p := b.Offsets[c]; p < end; p++ {
				index[p] = int32(first + int64(b.IDs[p]))
			}
		}
	}
	return l.index.Slice(0, 4*len(b.IDs))
}

// scoreText scores a chunk of text.
func (l *lane) scoreText(w *work) {
	l.parser.Begin(&w.text)
	for {
		more, bad := l.parser.Parse(&l.batch, laneRows, w.bad)
		if w.bad = bad; !more {
			return
		}
		if l.batch.N == 0 {
			continue
		}
		if w.err = l.scoreBatch(); w.err != nil {
			return
		}
		l.appendScores(w)
	}
}

// scoreRange scores a range of the samples of a source.
func (l *lane) scoreRange(w *work, src data.Source) {
	for first := w.first; first < w.last; first += laneRows {
		n := int(min(laneRows, w.last-first))
		for i := range n {
			l.idx[i] = first + int64(i)
		}
		if w.err = src.Read(&l.batch.Batch, l.idx[:n]); w.err != nil {
			return
		}
		l.batch.HasLabel = l.batch.HasLabel[:0]
		for range n {
			l.batch.HasLabel = append(l.batch.HasLabel, true)
		}
		if w.err = l.scoreBatch(); w.err != nil {
			return
		}
		l.appendScores(w)
	}
}

// appendScores appends the lines of the batch, and the figures of rows with a label.
func (l *lane) appendScores(w *work) {
	b := &l.batch
	keep := len(b.Kept) / b.N
	for i := range b.N {
		if kept := b.Kept[i*keep : (i+1)*keep]; l.parquet {
			w.out = data.AppendScore(w.out, kept, l.probs[i])
		} else {
			w.out = appendLine(w.out, kept, l.probs[i])
		}
		if b.HasLabel[i] {
			w.packed = append(w.packed, auc.Pack(l.probs[i], b.Labels[i] > 0))
			w.loss += float64(l.losses[i])
		}
	}
	w.rows += int64(b.N)
}

// appendLine appends a line of CSV: kept fields and a score.
func appendLine(out []byte, kept [][]byte, score float32) []byte {
	for _, field := range kept {
		out = append(appendField(out, field), ',')
	}
	return append(strconv.AppendFloat(out, float64(score), 'g', -1, 32), '\n')
}

// appendField appends a field as RFC 4180 quotes it.
func appendField(out, field []byte) []byte {
	quote := false
	for _, c := range field {
		quote = quote || c == ',' || c == '"' || c == '\n' || c == '\r'
	}
	if !quote {
		return append(out, field...)
	}
	out = append(out, '"')
	for _, c := range field {
		if c == '"' {
			out = append(out, '"')
		}
		out = append(out, c)
	}
	return append(out, '"')
}

// header is the first line of the scores.
func header(keep []string) []byte {
	var line []byte
	for _, name := range keep {
		line = append(appendField(line, []byte(strings.TrimSpace(name))), ',')
	}
	return append(line, "score\n"...)
}
