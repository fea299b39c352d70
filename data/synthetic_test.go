package data

import (
	"math"
	"slices"
	"sort"
	"testing"
)

func kaggle(t testing.TB) []int64 {
	tables, err := Tables("criteo-kaggle")
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestKnownTables(t *testing.T) {
	for name, want := range map[string][2]int64{"criteo-kaggle": {26, 33762577}, "criteo-terabyte-40m": {26, 187767399},
		"criteo-terabyte": {26, 882774559}, "avazu": {21, 9449205}} {
		tables, err := Tables(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, r := range tables {
			sum += r
		}
		if int64(len(tables)) != want[0] || sum != want[1] {
			t.Errorf("%s: %d tables of %d rows, want %d of %d", name, len(tables), sum, want[0], want[1])
		}
	}
	_, err := Tables("criteo-keggle")
	checkError(t, err, "criteo-keggle", "avazu, criteo-kaggle, criteo-terabyte, criteo-terabyte-40m")
}

func TestSyntheticIsAFunctionOfSeedAndIndex(t *testing.T) {
	rnd := random(t)
	idx := []int64{0, 1, math.MaxInt64 - 1, math.MaxInt64 - 1}
	for range 500 {
		idx = append(idx, rnd.Int64())
	}
	a := checkSamples(t, LawIndependent, idx)
	var all Batch
	checkError(t, a.Read(&all, []int64{-1}), "sample -1")
	openFails(t, Options{Format: FormatSynthetic}, "model.tables")
	openFails(t, Options{Format: FormatSynthetic, Tables: []int64{5}, Files: []string{"x"}}, "no files")
}

// checkSamples checks that samples of a law are a function of seed and index, and that Read allocates nothing.
func checkSamples(t *testing.T, law string, idx []int64) Source {
	t.Helper()
	open := func(seed uint64) Source {
		return mustOpen(t, Options{Format: FormatSynthetic, Tables: kaggle(t), Seed: seed, Law: law})
	}
	a, b := open(7), open(7)
	var all, one Batch
	if err := a.Read(&all, idx); err != nil {
		t.Fatal(err)
	}
	for i, p := range idx {
		if err := b.Read(&one, []int64{p}); err != nil {
			t.Fatal(err)
		}
		if one.Labels[0] != all.Labels[i] || !slices.Equal(one.Dense, all.Dense[i*13:][:13]) || !slices.Equal(one.IDs, all.IDs[i*26:][:26]) {
			t.Fatalf("sample %d differs when read alone", p)
		}
	}
	if err := open(8).Read(&one, idx); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(one.IDs, all.IDs) || slices.Equal(one.Dense, all.Dense) || slices.Equal(one.Labels, all.Labels) {
		t.Error("another seed gives the same samples")
	}
	if n := testing.AllocsPerRun(3, func() { a.Read(&all, idx) }); n != 0 {
		t.Errorf("%v allocations per Read", n)
	}
	return a
}

func TestScatterIsABijection(t *testing.T) {
	rnd := random(t)
	for range 300 {
		rows := 1 + rnd.Int64N(3000)
		k := newSkew(rows, rnd.Uint64())
		seen := make([]bool, rows)
		for r := range rows {
			id := k.scatterRank(uint32(r))
			if int64(id) >= rows || seen[id] {
				t.Fatalf("%d rows: rank %d goes to %d, outside or twice", rows, r, id)
			}
			seen[id] = true
		}
		for _, w := range []uint64{0, math.MaxUint64, rnd.Uint64()} {
			if r := k.drawRank(w); int64(r) >= rows {
				t.Fatalf("%d rows: rank %d", rows, r)
			}
		}
	}
	k := newSkew(maxRows, 5)
	for range 100_000 {
		w, r := rnd.Uint64(), rnd.Uint32N(maxRows)
		if k.drawRank(w) >= maxRows || uint64(k.scatterRank(r)) != (uint64(r)*(k.mul%maxRows)%maxRows+k.add)%maxRows {
			t.Fatalf("rank %d, row %d of %d", k.drawRank(w), k.scatterRank(r), int64(maxRows))
		}
	}
}

// The label depends on the features by the rule of the teacher, at the base rate and
// the difficulty promised, for any tables.
func TestTeacher(t *testing.T) {
	for _, tables := range [][]int64{kaggle(t), {3}, {1000, 1}, {5, 60_000, 70}} {
		s, err := newSynthetic(Schema{Dense: criteoDense, Tables: tables}, 11)
		if err != nil {
			t.Fatal(err)
		}
		const n = 40_000
		type point struct{ odds, label float64 }
		points := make([]point, n)
		var raw [criteoDense]int32
		ids := make([]uint32, len(tables))
		ones := 0.0
		for i := range points {
			score, w := s.drawSample(uint64(i), &raw, ids)
			points[i] = point{s.teacher.logOdds(score), float64(s.teacher.drawLabel(score, w))}
			ones += points[i].label
		}
		sort.Slice(points, func(i, j int) bool { return points[i].odds < points[j].odds })
		// AUC: the share of pairs in the right order. Few odds are equal.
		below, right := 0.0, 0.0
		for _, p := range points {
			if p.label == 1 {
				right += below
			} else {
				below++
			}
		}
		auc := right / (ones * (n - ones))
		if rate := ones / n; math.Abs(rate-baseRate) > 0.02 || auc < 0.78 || auc > 0.83 {
			t.Errorf("tables %v: base rate %.3f, Bayes AUC %.3f", tables, rate, auc)
		}
	}
}

// Synthetic data must never change: digests depend on it.
func TestSyntheticIsFixed(t *testing.T) {
	s := mustOpen(t, Options{Format: FormatSynthetic, Tables: kaggle(t), Seed: 42})
	var b Batch
	if err := s.Read(&b, Order{Samples: s.Len(), Batch: 2000}.Slice(3, 0, 1, nil)); err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	add := func(x uint64) { sum = mix(sum + golden + x) }
	for _, x := range b.IDs {
		add(uint64(x))
	}
	for _, x := range b.Dense {
		add(uint64(math.Float32bits(x)))
	}
	for _, x := range b.Labels {
		add(uint64(x))
	}
	if want := uint64(0x8e41c4aa866d7199); sum != want {
		t.Errorf("the samples' hash is %#x, want %#x", sum, want)
	}
}

func BenchmarkSynthetic(b *testing.B) {
	s := mustOpen(b, Options{Format: FormatSynthetic, Tables: kaggle(b), Seed: 42})
	o := Order{Samples: s.Len(), Batch: 2048}
	var batch Batch
	var idx []int64
	for i := range b.N {
		idx = o.Slice(int64(i+1), 0, 1, idx)
		if err := s.Read(&batch, idx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*2048/b.Elapsed().Seconds()/1e6, "Msamples/s")
}
