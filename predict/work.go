package predict

import (
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/auc"
	"github.com/ecrec/ecrec/kernels"
)

// laneRows is how many rows a lane scores at a time: their activations stay in the cache of a core.
const laneRows = 512

// worker scores rows on one goroutine, and formats the scores.
type worker struct {
	*Lane
	m       *Model
	parser  *data.RowParser // nil: samples of a Source
	parquet bool            // scores are of a Parquet file
	batch   data.RowBatch
	idx     []int64 // scratch
}

func newWorker(m *Model, parser *data.RowParser, parquet bool) (l *worker, err error) {
	l = &worker{m: m, parser: parser, parquet: parquet, idx: make([]int64, laneRows)}
	if l.Lane, err = m.NewLane(laneRows); err != nil {
		return nil, err
	}
	return l, l.SetDense(kernels.BytesOf(m.dense))
}

// scoreBatch scores the rows of the batch. The scores are in probs, the losses of rows with a label in
// losses.
func (l *worker) scoreBatch() error {
	_, err := l.Score(&l.batch, l.m)
	return err
}

// scoreText scores a chunk of text.
func (l *worker) scoreText(w *work) {
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
func (l *worker) scoreRange(w *work, src data.Source) {
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
func (l *worker) appendScores(w *work) {
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
