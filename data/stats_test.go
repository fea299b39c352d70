package data

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	t.Logf("%s: %.4g", what, got)
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: %.4g, want %.4g within %.0f %%", what, got, want, 100*tolerance)
	}
}

// The synthetic data has the skew that is reported of Criteo's.
func TestSkew(t *testing.T) {
	if testing.Short() {
		t.Skip("counts many samples, in one goroutine")
	}
	measure := func(name string, batch, batches int) *Statistics {
		tables, err := Tables(name)
		if err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, Options{Format: FormatSynthetic, Tables: tables, Seed: 1})
		st, err := Stats(s, StatsOptions{Samples: int64(batch * batches), Batch: batch, Trainers: 8, Window: 200})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := measure("criteo-kaggle", 16384, 12)
	near(t, "Kaggle: unique rows of a batch", st.UniquePerBatch, 65_000, 0.1)
	near(t, "Kaggle: lookups by the top 0.1 % of rows", st.All.TopShare, 0.9, 0.03)
	near(t, "label rate", st.LabelRate, baseRate, 0.06)
	st = measure("criteo-terabyte-40m", 2048, 12)
	near(t, "Terabyte: unique rows of a batch", st.UniquePerBatch, 8_900, 0.1)
}

// A row that is looked up more often than 32 bits count has all its lookups.
func TestStatsOfManyLookups(t *testing.T) {
	c := &counter{share: share{0, 1}, rows: make([]rowUse, 8), window: 1, first: 1, last: 9}
	c.lookUp(5, 1, 0)
	c.findRow(6).count = math.MaxUint32
	c.lookUp(5, 1, 0)
	c.lookUp(2, 1, 0)
	sums := usesOf{counts: make([]histogram, 1), uses: histogram{}}
	c.addUses(&sums, []int64{0, 9})
	if h := sums.counts[0]; h[1<<32] != 1 || h[1] != 1 || h.lookups() != 1<<32+1 {
		t.Errorf("the rows by their lookups: %v", h)
	}
}

// Stats agrees with a plain count of a small data set.
func TestStatsCounts(t *testing.T) {
	tables := slices.Repeat([]int64{1, 2, 40, 3000, 5, 7, 9, 11, 13, 17, 400, 1, 6}, 2)
	name := filepath.Join(t.TempDir(), "x.bin")
	synth := SynthOptions{Env: env.Real(), To: name, Tables: tables, Seed: 4, First: 1000, Samples: 1003}
	if err := Synth(synth); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, Options{Format: FormatCriteoBin, Files: []string{name}, Tables: tables})
	const batch, trainers, window = 10, 3, 2
	st, err := Stats(s, StatsOptions{Batch: batch, Trainers: trainers, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	want := plainStats(t, s, batch, trainers, window)
	perTable := make([][]uint32, 26)
	for r, n := range want.counts {
		perTable[r.table] = append(perTable[r.table], uint32(n))
	}
	for i, ts := range st.Tables {
		top := 0
		slices.Sort(perTable[i])
		n := len(perTable[i])
		for k := range min(n, int(max(1, tables[i]/1000))) {
			top += int(perTable[i][n-1-k])
		}
		if ts.Rows != tables[i] || ts.Seen != int64(n) || ts.TopShare != float64(top)/1003 {
			t.Errorf("table %d: %+v, want %d rows seen, %d lookups by the top", i, ts, n, top)
		}
	}
	b, u := float64(st.Batches), float64(want.unique)
	if st.Samples != 1003 || st.Batches != 101 || st.All.Seen != int64(len(want.counts)) ||
		math.Round(st.LabelRate*1003) != float64(want.ones) || math.Round(st.UniquePerBatch*b) != u ||
		math.Round(st.OneTrainerBatch*u) != float64(want.batchAlone) || math.Round(st.OneTrainer*u) != float64(want.alone) ||
		math.Round(st.SyncedNext*b) != float64(want.next) {
		t.Errorf("%+v, want %+v", st, want)
	}
	checkTop(t, st, want)
	_, err = Stats(s, StatsOptions{Batch: 0, Trainers: 1})
	checkError(t, err, "batches of 0")

	// With less memory there are more passes, and the figures are the same.
	for _, most := range []int{64, 1024, 8192} {
		passes := map[string]bool{}
		o := StatsOptions{Batch: batch, Trainers: trainers, Window: window, maxUses: most,
			Progress: func(p Progress) error { passes[p.What] = true; return nil }}
		few, err := Stats(s, o)
		if err != nil || !reflect.DeepEqual(few, st) {
			t.Errorf("%d rows at a time: %+v (%v), want %+v", most, few, err, st)
		}
		if got := len(passes) > 1; got != (3*most < 4*int(st.All.Seen)) {
			t.Errorf("%d rows at a time of %d: passes %v", most, st.All.Seen, passes)
		}
	}
}

type row struct{ table, id int }

type plainFigures struct {
	ones, unique, batchAlone, alone, next int
	counts, batches                       map[row]int
}

// checkTop checks the curve and the rows of a batch that are among the most popular ones. Those of the same number of lookups at the border
// have their share of the batches.
func checkTop(t *testing.T, st *Statistics, want plainFigures) {
	type use struct{ lookups, batches int }
	var uses []use
	lookups := 0
	for r, n := range want.counts {
		uses = append(uses, use{n, want.batches[r]})
		lookups += n
	}
	slices.SortFunc(uses, func(a, b use) int { return b.lookups - a.lookups })
	for i, p := range st.All.Curve {
		sum := 0
		for _, u := range uses[:min(len(uses), int(CurveShares[i]*float64(st.All.Rows)))] {
			sum += u.lookups
		}
		if p.Rows != CurveShares[i] || math.Abs(p.Lookups-float64(sum)/float64(lookups)) > 1e-12 {
			t.Errorf("%v of the rows: %+v, want %v of the lookups", CurveShares[i], p, float64(sum)/float64(lookups))
		}
	}
	top, sum := int(st.All.Rows/1000), 0.0
	for _, u := range uses[:top] {
		same, batches := 0.0, 0
		for _, v := range uses {
			if v.lookups == u.lookups {
				same++
				batches += v.batches
			}
		}
		sum += float64(batches) / same
	}
	if math.Abs(st.TopInBatch-sum/float64(want.unique)) > 1e-9 {
		t.Errorf("%v of the rows of a batch are popular, want %v", st.TopInBatch, sum/float64(want.unique))
	}
}

// plainStats is Stats with maps.
func plainStats(t *testing.T, s Source, batch, trainers, window int) plainFigures {
	o := Order{Samples: s.Len(), Batch: batch}
	uses := map[row][]map[int]bool{} // per step, the trainers
	w := plainFigures{counts: map[row]int{}, batches: map[row]int{}}
	for step := range o.StepsPerEpoch() {
		for tr := range trainers {
			var b Batch
			if err := s.Read(&b, o.Slice(step+1, tr, trainers, nil)); err != nil {
				t.Fatal(err)
			}
			for _, y := range b.Labels {
				w.ones += int(y)
			}
			for i, id := range b.IDs {
				r := row{i % 26, int(id)}
				if uses[r] == nil {
					uses[r] = make([]map[int]bool, o.StepsPerEpoch())
				}
				if uses[r][step] == nil {
					uses[r][step] = map[int]bool{}
				}
				uses[r][step][tr] = true
				w.counts[r]++
			}
		}
	}
	for r, steps := range uses {
		stay, next, trs, last := 0, 0, map[int]bool{}, -100
		end := func() {
			if len(trs) == 1 {
				w.alone += stay
			} else {
				w.next += next
			}
			stay, next, trs = 0, 0, map[int]bool{}
		}
		for step, by := range steps {
			if by == nil {
				continue
			}
			if step-last > window {
				end()
			}
			if step == last+1 {
				next++
			}
			last = step
			w.unique++
			w.batches[r]++
			stay++
			if len(by) == 1 {
				w.batchAlone++
			}
			for tr := range by {
				trs[tr] = true
			}
		}
		end()
	}
	return w
}

// Synth writes the samples of the synthetic format.
func TestSynth(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.bin")
	o := SynthOptions{Env: env.Real(), To: name, Tables: kaggle(t), Seed: 4, First: 1000, Samples: 5000}
	calls := 0
	o.Progress = func(p Progress) error {
		if p.Done > p.Total || p.Total != 5000 {
			t.Errorf("progress %+v", p)
		}
		calls++
		return nil
	}
	if err := Synth(o); err != nil {
		t.Fatal(err)
	}
	if calls == 0 {
		t.Error("no progress was told")
	}
	a := mustOpen(t, Options{Format: FormatCriteoBin, Files: []string{name}, Tables: o.Tables})
	b := mustOpen(t, Options{Format: FormatSynthetic, Tables: o.Tables, Seed: 4})
	var x, y Batch
	for i := range int64(5000) {
		if err := errors.Join(a.Read(&x, []int64{i}), b.Read(&y, []int64{1000 + i})); err != nil {
			t.Fatal(err)
		}
		if x.Labels[0] != y.Labels[0] || !slices.Equal(x.Dense, y.Dense) || !slices.Equal(x.IDs, y.IDs) {
			t.Fatalf("sample %d differs", i)
		}
	}
	stop := errors.New("stop")
	o.To = filepath.Join(t.TempDir(), "y.bin")
	o.Progress = func(Progress) error { return stop }
	if err := Synth(o); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Dir(o.To) + "/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	o.To = filepath.Join(t.TempDir(), "no", "y.bin")
	checkError(t, Synth(o), "cannot create")
	o.Samples = 0
	checkError(t, Synth(o), "0 samples")
	o.Samples, o.Tables = 5, []int64{4}
	checkError(t, Synth(o), "26")
}
