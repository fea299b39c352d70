package predict

import (
	"io"
	"math"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/auc"
	"github.com/ecrec/ecrec/internal/env"
)

// Options describe the rows to score.
type Options struct {
	Env    env.Env
	Data   data.Options // the files and their format; data.Stdin names the standard input
	Recipe *data.Recipe
	Keep   []string // columns that are written before the score
	// Parquet writes a Parquet file, in which kept columns of Parquet files have their types, and those of text are text.
	Parquet bool
	// SkipBad leaves malformed rows out, and counts them.
	SkipBad bool
	// Threads is the number of lanes.
	Threads int
	// Stop is called between chunks. Its error ends the work.
	Stop func() error
	// Skipped is called for the first malformed rows that are left out.
	Skipped func(error)
}

// Result counts the rows scored, with the figures of those with a label.
type Result struct {
	Rows, Skipped int64
	Labelled      int64   // rows with a label
	Logloss, AUC  float64 // of those; NaN if undefined
}

// sourceRows is how many samples of a source are a piece of work.
const sourceRows = 16 * laneRows

// work is a chunk of rows, in memory that is reused.
type work struct {
	text        data.RowChunk
	first, last int64 // samples of a source
	end         bool  // nothing follows; err may be set

	out    []byte
	packed []auc.Packed
	loss   float64
	rows   int64
	bad    []*data.Error
	err    error
}

// Run scores the rows and writes them in their order: the columns of Keep, and score. CSV has a header, and scores as
// the shortest decimal that parses back to the same float32.
func (m *Model) Run(o Options, to io.Writer) (Result, error) {
	if err := m.CheckRecipe(o.Recipe); err != nil {
		return Result{}, err
	}
	r := run{m: m, o: o}
	var kept []data.KeptColumn
	if data.HasRows(o.Data.Format) {
		rows, err := data.OpenRows(data.RowOptions{Env: o.Env, Files: o.Data.Files, Format: o.Data.Format, Recipe: o.Recipe, Keep: o.Keep,
			KeepValues: o.Parquet, Threads: o.Threads})
		if err != nil {
			return Result{}, err
		}
		defer rows.Close()
		r.rows, kept = rows, rows.KeptColumns()
	} else {
		src, err := data.Open(o.Data)
		if err != nil {
			return Result{}, err
		}
		defer src.Close()
		r.src = src
	}
	if !o.Parquet {
		return r.scoreAll(to)
	}
	file, err := data.NewScoreWriter(to, kept)
	if err != nil {
		return Result{}, err
	}
	result, err := r.scoreAll(file)
	if err == nil {
		err = o.Env.Do("write scores", file.Close)
	}
	return result, err
}

// run is one call of Run. One of rows and src is set.
type run struct {
	m    *Model
	o    Options
	rows *data.Rows
	src  data.Source
}

// queues connect the lanes with the goroutines that read and write.
type queues struct {
	free       *env.Queue[*work]
	todo, done []*env.Queue[*work]
}

func (q *queues) close() {
	q.free.Close()
	for i := range q.todo {
		q.todo[i].Close()
		q.done[i].Close()
	}
}

// scoreAll runs the pipeline: one goroutine reads, the lanes score, this one writes.
func (r *run) scoreAll(to io.Writer) (total Result, err error) {
	e, n := r.o.Env, max(1, r.o.Threads)
	var lanes []*worker
	defer func() {
		for _, l := range lanes {
			l.Close()
		}
	}()
	q := queues{free: env.NewQueue[*work](e, "predict free", 2*n)}
	for range n {
		var parser *data.RowParser
		if r.rows != nil {
			if parser, err = r.rows.NewParser(); err != nil {
				return total, err
			}
		}
		l, err := newWorker(r.m, parser, r.o.Parquet)
		if err != nil {
			return total, err
		}
		lanes = append(lanes, l)
		q.todo = append(q.todo, env.NewQueue[*work](e, "predict todo", 2))
		q.done = append(q.done, env.NewQueue[*work](e, "predict done", 2))
		q.free.Put(new(work))
		q.free.Put(new(work))
	}
	ended := make([]*env.Event, n+1)
	for i := range ended {
		ended[i] = env.NewEvent(e, "predict ended")
	}
	for i, l := range lanes {
		e.Go("predict lane", func() {
			defer ended[i].Set(nil)
			r.scoreWork(l, q.todo[i], q.done[i])
		})
	}
	e.Go("predict reader", func() {
		defer ended[n].Set(nil)
		r.readWork(&q)
	})
	total, err = r.writeWork(&q, to)
	q.close()
	if len(r.o.Data.Files) == 1 && r.o.Data.Files[0] == data.Stdin {
		ended = ended[:n] // the reader may wait for input
	}
	for _, x := range ended {
		_ = x.Wait()
	}
	return total, err
}

// readWork puts pieces of work into the queues of the lanes, in turn.
func (r *run) readWork(q *queues) {
	next := int64(0)
	for i := 0; ; i++ {
		w, ok := q.free.Get()
		if !ok {
			return
		}
		*w = work{text: w.text, out: w.out[:0], packed: w.packed[:0]}
		if r.rows != nil {
			more, err := r.rows.Next(&w.text)
			w.end, w.err = !more || err != nil, err
		} else {
			w.first, w.last = next, min(next+sourceRows, r.src.Len())
			w.end, next = w.first >= w.last, w.last
		}
		end := w.end
		if !q.todo[i%len(q.todo)].Put(w) || end {
			return
		}
	}
}

// scoreWork is the goroutine of a lane.
func (r *run) scoreWork(l *worker, todo, done *env.Queue[*work]) {
	for {
		w, ok := todo.Get()
		if !ok {
			return
		}
		switch {
		case w.end:
		case r.rows != nil:
			l.scoreText(w)
		default:
			l.scoreRange(w, r.src)
		}
		end := w.end // after Put, w may be reused
		if !done.Put(w) || end {
			return
		}
	}
}

// mostSkipped is how many malformed rows are named.
const mostSkipped = 10

// writeWork writes the scores in the order of the rows.
func (r *run) writeWork(q *queues, to io.Writer) (total Result, err error) {
	write := func(b []byte) error {
		return r.o.Env.Do("write scores", func() error {
			_, err := to.Write(b)
			return err
		})
	}
	headed := r.o.Parquet
	var packed []auc.Packed
	loss := 0.0
	for i := 0; ; i++ {
		if err := r.o.Stop(); err != nil {
			return total, err
		}
		w, _ := q.done[i%len(q.done)].Get()
		for _, bad := range w.bad {
			if !r.o.SkipBad {
				return total, bad
			}
			if total.Skipped++; total.Skipped <= mostSkipped {
				r.o.Skipped(bad)
			}
		}
		if w.err != nil {
			return total, w.err
		}
		if !headed { // not before: an input that cannot be read leaves the output empty
			if err := write(header(r.o.Keep)); err != nil {
				return total, err
			}
			headed = true
		}
		if w.end {
			break
		}
		if err := write(w.out); err != nil {
			return total, err
		}
		total.Rows += w.rows
		packed = append(packed, w.packed...)
		loss += w.loss
		q.free.Put(w)
	}
	if r.src != nil {
		total.Skipped += r.src.Skipped()
	}
	total.Labelled = int64(len(packed))
	total.Logloss, total.AUC = loss/float64(len(packed)), math.NaN()
	if area, ok := auc.Combine([]auc.Partial{auc.Sum(packed)}); ok {
		total.AUC = area
	}
	return total, nil
}
