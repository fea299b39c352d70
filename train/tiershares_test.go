package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/kernels"
)

// pairwise returns rows with an index for each of some lists of the given lengths, so that any two values of two lists
// are together in a row.
func pairwise(r *rand.Rand, lengths ...int) (rows [][]int) {
	type pair [4]int // list, index, another list, index
	left := map[pair]bool{}
	for i, n := range lengths {
		for j, m := range lengths[:i] {
			for k := range n * m {
				left[pair{j, k % m, i, k / m}] = true
			}
		}
	}
	covers := func(row []int, list, index int) (n int) {
		for other, at := range row {
			if p := (pair{other, at, list, index}); other < list && at >= 0 && left[p] {
				n++
			} else if p = (pair{list, index, other, at}); other > list && at >= 0 && left[p] {
				n++
			}
		}
		return n
	}
	for len(left) > 0 {
		row := make([]int, len(lengths))
		for i := range row {
			row[i] = -1
		}
		var first *pair // the least one, so that a seed has one result
		for p := range left {
			if first == nil || slices.Compare(p[:], first[:]) < 0 {
				first = &p
			}
		}
		row[first[0]], row[first[2]] = first[1], first[3]
		for _, list := range r.Perm(len(row)) {
			if row[list] >= 0 {
				continue
			}
			best := -1
			for _, index := range r.Perm(lengths[list]) {
				if n := covers(row, list, index); n > best {
					best, row[list] = n, index
				}
			}
		}
		for i := range row {
			for j := range i {
				delete(left, pair{j, row[j], i, row[i]})
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// TestTierShares: the result of a job is that with all rows in memory, with any share of them there. Any two of share,
// cache, optimizer, roles of ranks, code and checkpoints are tried together.
func TestTierShares(t *testing.T) {
	r := seeded(t)
	shares := []float64{100, 25, 6.4, 1.6, 0.4}
	modes := []string{"none", "planned", "lrpp", "auto"}
	rules := kernels.RuleNames(false)
	roles := [][]string{{"job.ranks=1"}, {"job.ranks=2"}, {"job.ranks=4"}, {"ranks.trainers=1", "ranks.servers=2"},
		{"job.ranks=5", "ranks.trainers=2", "ranks.servers=2", "ranks.readers=1"}}
	owners := []int{1, 2, 4, 2, 2}
	codes := [][]string{{"ec.code=none"}, {"ec.code=xor", "ec.k=1", "ec.commit_every=3"}}
	kinds := []string{"", "full", "incremental"}
	want := map[string]*Result{}
	table := pairwise(r, len(shares), len(modes), len(rules), len(roles), len(codes), len(kinds))
	read, spilled := int64(0), int64(0)
	for _, row := range table[:fewerInRaces(len(table))] {
		result := slices.Concat(roles[row[3]], []string{"optimizer.sparse.kind=" + rules[row[2]], "train.iterations=12", "train.eval_every=5"})
		sets := append(slices.Clone(result), "cache.mode="+modes[row[1]], "store.tier=file", "store.dram_bytes=1GiB",
			"store.path="+filepath.Join(t.TempDir(), "store"))
		if owners[row[3]] > 1 {
			sets = append(sets, codes[row[4]]...)
		}
		if kind := kinds[row[5]]; kind != "" {
			sets = append(sets, "checkpoint.every=3", "checkpoint.kind="+kind, "checkpoint.dir="+t.TempDir())
		}
		key := fmt.Sprint(result)
		if want[key] == nil {
			want[key] = run(t, Options{}, adagrad, append(result, "ec.code=none")...)
		}
		cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0.0
		for _, n := range cfg.Model.TableRows() {
			rows += float64(n)
		}
		frames := int(math.Ceil(shares[row[0]] / 100 * rows / float64(owners[row[3]])))
		meter := &Meter{}
		got := run(t, Options{Frames: frames, Meter: meter, SaveRows: 1 + r.IntN(3000)}, adagrad, sets...)
		read, spilled = read+meter.Rows[ClassRead].Load(), spilled+meter.Rows[ClassSpill].Load()
		if got.Digest != want[key].Digest || !slices.Equal(got.Eval, want[key].Eval) {
			t.Errorf("%d frames (%g %%), %v: digest %s, %+v; want %s, %+v", frames, shares[row[0]], sets, got.Digest, got.Eval,
				want[key].Digest, want[key].Eval)
		}
	}
	if t.Logf("%d jobs: %d rows read, %d spilled", len(table), read, spilled); read == 0 || spilled == 0 {
		t.Error("no row was read, or none spilled")
	}
}
