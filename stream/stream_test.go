package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const testRow = 12 // bytes of a row

// writer is one rank that trains, and its model at the end of each step.
type writer struct {
	t    *testing.T
	rnd  *rand.Rand
	log  *Log
	rank int
	rows map[int32]uint64
	at   map[int64]map[int32]uint64
}

func rowOf(slot int32, value uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(slot))
	return binary.LittleEndian.AppendUint64(b, value)
}

// train updates rows as a function of steps, from one to another, so that a step that is trained again gives the same rows.
func (w *writer) train(from, to int64) (slots []int32) {
	w.rows = map[int32]uint64{}
	for slot, v := range w.at[from] {
		w.rows[slot] = v
	}
	written := map[int32]bool{}
	for step := from + 1; step <= to; step++ {
		r := rand.New(rand.NewPCG(uint64(step), uint64(w.rank)))
		for range 1 + r.IntN(20) {
			slot := int32(r.IntN(300))
			w.rows[slot], written[slot] = w.rows[slot]*31+uint64(step), true
		}
		w.at[step] = map[int32]uint64{}
		for slot, v := range w.rows {
			w.at[step][slot] = v
		}
	}
	for slot := range written {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots
}

func (w *writer) rowsOf(slots []int32) (rows []byte) {
	for _, slot := range slots {
		rows = append(rows, rowOf(slot, w.rows[slot])...)
	}
	return rows
}

func (w *writer) all() (slots []int32) {
	for slot := range w.rows {
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slots
}

// open opens the log of a job that begins at a step, in the same run.
func (w *writer) open(topic Topic, ranks int, run lineage.Run, at int64) {
	var err error
	var about func() ([]byte, error)
	if w.rank == 0 {
		about = func() ([]byte, error) { return []byte("about"), nil }
	}
	w.log, err = OpenLog(LogOptions{Env: env.Real(), Topic: topic, Rank: w.rank, Ranks: ranks, Run: func() lineage.Run { return run }, Session: w.rnd.Uint64(), About: about})
	must(w.t, err)
	if w.log.Continues(at) {
		must(w.t, w.log.CutTo(at+1))
		return
	}
	must(w.t, w.log.CutTo(0))
	if at > 0 {
		w.rows = w.at[at]
		w.repeat(func() error { return w.log.AppendPart(at+1, w.all(), w.rowsOf(w.all())) })
		w.append(at, nil)
	}
}

// repeat repeats until it succeeds.
func (w *writer) repeat(f func() error) {
	for i := 0; f() != nil; i++ {
		if i == 1000 {
			w.t.Fatal("a log fails for ever")
		}
	}
}

func (w *writer) append(step int64, slots []int32) {
	extra := bytes.Repeat([]byte{byte(step)}, w.rnd.IntN(3)*MaxPayload/2)
	w.repeat(func() error {
		if w.log.Step() < step+1 {
			if err := w.log.Append(step+1, slots, w.rowsOf(slots), extra); err != nil {
				return err
			}
		}
		return w.log.Sync()
	})
}

// TestRandomRuns: jobs that fall back, resume, fail to write and write twice. The cuts of a reader, which also restarts, are the models.
func TestRandomRuns(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testRandomRun(t, seed) })
	}
}

func testRandomRun(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 9))
	topic := NewMemory(env.Real())
	topic.Fault = func(int) error {
		if r.IntN(6) == 0 {
			return errors.New("planned")
		}
		return nil
	}
	topic.Doubles = func(int) bool { return r.IntN(5) == 0 }
	ranks := 1 + r.IntN(4)
	must(t, topic.Create(ranks))
	var writers []*writer
	for rank := range ranks {
		writers = append(writers, &writer{t: t, rnd: r, rank: rank, at: map[int64]map[int32]uint64{0: {}}})
	}
	run := lineage.Run{Lineage: lineage.ID{1, byte(seed)}}
	follow := newFollower(t, topic, ranks, r)
	at, most, end := int64(0), int64(0), int64(1) // of the job; the last cut; behind the last epoch of any rank
	for range 1 + r.IntN(4) {                     // jobs
		if at = r.Int64N(most + 1); most > 0 && r.IntN(4) == 0 && at > 0 {
			run.Forks = append(run.Forks, lineage.Fork{Lineage: run.Lineage, Step: at})
			run.Lineage[0]++
		}
		for _, w := range writers {
			w.open(topic, ranks, run, at)
		}
		for range r.IntN(6) { // epochs
			to := at + 1 + r.Int64N(4)
			end = max(end, to+1)
			last := r.IntN(ranks + 1) // a job may be killed within an epoch
			for i, w := range writers {
				if slots := w.train(at, to); i < last || r.IntN(3) > 0 {
					w.append(to, slots)
				} else {
					most = max(most, at)
					goto killed
				}
			}
			at = to
			most = max(most, at)
			if r.IntN(2) == 0 {
				follow.read(writers)
			}
		}
	killed:
		for _, w := range writers {
			w.log.Close()
		}
		if r.IntN(2) == 0 {
			follow.restart()
		}
		most = max(most, at)
	}
	for _, w := range writers {
		w.open(topic, ranks, run, at)
		w.append(end, w.train(at, end))
		w.log.Close()
	}
	follow.read(writers)
	if follow.cut.Step != end || follow.lineage != run.Lineage {
		t.Errorf("the reader holds step %d of %v, the job is at %d of %v", follow.cut.Step, follow.lineage, end, run.Lineage)
	}
}

// follower reads a topic.
type follower struct {
	t       *testing.T
	topic   Topic
	rnd     *rand.Rand
	ranks   int
	chains  []*Chain
	merge   *Merge
	at      []Position // of the last cut
	rows    []map[int32]uint64
	cut     Cut
	lineage lineage.ID
}

func newFollower(t *testing.T, topic Topic, ranks int, r *rand.Rand) *follower {
	f := &follower{t: t, topic: topic, rnd: r, ranks: ranks}
	for range ranks {
		f.at, f.rows = append(f.at, Start(0)), append(f.rows, map[int32]uint64{})
	}
	f.restart()
	return f
}

// restart begins to read at the last cut.
func (f *follower) restart() {
	f.chains, f.merge = nil, NewMerge(f.ranks)
	for rank := range f.ranks {
		f.chains = append(f.chains, NewChain(rank, f.at[rank]))
	}
}

// read reads to the end, and compares each cut with the models of the writers.
func (f *follower) read(writers []*writer) {
	f.t.Helper()
	for rank, c := range f.chains {
		p, err := f.topic.Open(rank)
		must(f.t, err)
		for next := c.readTo(); ; {
			records, err := p.Read(next, 1+f.rnd.IntN(2*MaxPayload), 0)
			must(f.t, err)
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				e, err := c.Take(r)
				must(f.t, err)
				if next = r.Offset + 1; e != nil {
					f.merge.Add(e)
				}
			}
		}
		p.Close()
	}
	for cut := f.merge.Next(); cut != nil; cut = f.merge.Next() {
		if cut.Lineage == f.lineage && cut.Step <= f.cut.Step {
			f.t.Fatalf("the cut of step %d follows on that of %d", cut.Step, f.cut.Step)
		}
		f.cut, f.lineage = *cut, cut.Lineage
		for rank, e := range cut.Epochs {
			if e.Absolute {
				f.rows[rank] = map[int32]uint64{}
			}
			for i, slot := range e.Slots {
				f.rows[rank][slot] = binary.LittleEndian.Uint64(e.Rows[i*testRow+4:])
			}
			f.at[rank] = Position{e.Lineage, e.To, e.Next}
			if want := writers[rank].at[cut.Step]; !equalRows(f.rows[rank], want) {
				f.t.Fatalf("rank %d at step %d: %v, the writer has %v", rank, cut.Step, f.rows[rank], want)
			}
		}
	}
}

func equalRows(a, b map[int32]uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for slot, v := range a {
		if w, ok := b[slot]; !ok || v != w {
			return false
		}
	}
	return true
}
