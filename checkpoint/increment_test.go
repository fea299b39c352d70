package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// written has some rows of a rank.
type written struct {
	RowSource
	rows map[int32][]byte
	bits []uint64
}

func (s *written) TouchedBits() []uint64 { return s.bits }

func (s *written) ReadTouched(dst []byte, from int64) (rows int, next int64, err error) {
	for _, slot := range slices.Sorted(maps.Keys(s.rows)) {
		if row := s.rows[slot]; int64(slot) >= from && len(dst) >= len(row) {
			rows, next, dst = rows+1, int64(slot)+1, dst[copy(dst, row):]
		}
	}
	return rows, next, nil
}

// change writes a random share of the rows of a world, and returns them by rank.
func change(rnd *rand.Rand, w *world, share float64) []*written {
	all := make([]*written, len(w.shards))
	for rank, h := range w.shards {
		s := &written{rows: map[int32][]byte{}, bits: make([]uint64, (h.Slots()+63)/64)}
		for slot := range int32(h.Slots()) {
			if rnd.Float64() >= share {
				continue
			}
			row := make([]byte, h.RowBytes())
			for i := range row {
				row[i] = byte(rnd.Uint32())
			}
			if err := h.StoreRaw([]int32{slot}, row); err != nil {
				panic(err)
			}
			s.rows[slot], s.bits[slot>>6] = row, s.bits[slot>>6]|1<<(slot&63)
		}
		all[rank] = s
	}
	for _, part := range [][]byte{w.weights, w.state} {
		for i := range part {
			part[i] = byte(rnd.Uint32())
		}
	}
	return all
}

// saveRows saves a world with the given rows of each rank.
func (w *world) saveRows(s *Save, rows []*written) error {
	s.Env, s.Ranks, s.Model = env.Real(), len(w.shards), w.model
	if err := s.Begin(); err != nil {
		return err
	}
	part, err := s.WriteDense(w.weights, w.state)
	if err != nil {
		return err
	}
	parts := []Part{part}
	for rank := range w.shards {
		p, err := s.WriteRows(rank, rows[rank])
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	return s.Commit(parts, w.digest().String(), history(s.Step))
}

// chain saves a full checkpoint and n increments of it, at the steps 10, 20, ..., and full checkpoints of the same
// steps to the folder full.
func chain(t *testing.T, rnd *rand.Rand, w *world, n int, dir, full string) {
	t.Helper()
	run := runOf("run", "1")
	w.fill(rnd, rnd.Float64())
	first := Save{Dir: dir, Step: 10, Run: run}
	if err := errors.Join(w.save(first), w.save(Save{Dir: full, Step: 10, Run: run})); err != nil {
		t.Fatal(err)
	}
	c, err := Open(env.Real(), filepath.Join(dir, stepName(10)))
	if err != nil {
		t.Fatal(err)
	}
	parent := c.AsParent(dir, len(w.shards))
	for i := range n {
		step := int64(20 + 10*i)
		s := &Save{Dir: dir, Step: step, Run: run, Parent: parent}
		rows := change(rnd, w, []float64{0, 0.01, 0.2, 1}[rnd.IntN(4)])
		if err := errors.Join(w.saveRows(s, rows), w.save(Save{Dir: full, Step: step, Run: run})); err != nil {
			t.Fatal(err)
		}
		parent = s.AsParent()
	}
}

// sameFiles fails the test if two folders do not have the same files.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	if x, y := names(t, a), names(t, b); !slices.Equal(x, y) {
		t.Fatalf("%s has %v, %s has %v", a, x, b, y)
	}
	for _, name := range names(t, a) {
		x, errX := os.ReadFile(filepath.Join(a, name))
		y, errY := os.ReadFile(filepath.Join(b, name))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Fatalf("%s of %s and %s differ: %v %v", name, a, b, errX, errY)
		}
	}
}

// An increment with its parents is the full checkpoint of its step: on any number of ranks, in an export, a comparison, a
// verification, and byte for byte once it is consolidated.
func TestIncrementsAreFullCheckpoints(t *testing.T) {
	rnd := random(t)
	for range 6 {
		w := newWorld(randomModel(rnd), 1+rnd.IntN(4))
		dir, full, to := t.TempDir(), t.TempDir(), t.TempDir()
		n := rnd.IntN(6)
		chain(t, rnd, w, n, dir, full)
		for step := int64(10); step <= int64(10+10*n); step += 10 {
			c, err := Open(env.Real(), filepath.Join(dir, stepName(step)))
			if err != nil {
				t.Fatal(err)
			}
			want, err := Open(env.Real(), filepath.Join(full, stepName(step)))
			if err != nil {
				t.Fatal(err)
			}
			if c.IsIncrement() != (step > 10) {
				t.Errorf("step %d: an increment: %t", step, c.IsIncrement())
			}
			if sum, bad := c.Verify(); len(bad) > 0 || sum.String() != want.Digest {
				t.Fatalf("step %d: digest %v, want %v, %v", step, sum, want.Digest, bad)
			}
			got := newWorld(w.model, 1+rnd.IntN(5))
			if err := got.load(c); err != nil || got.digest().String() != want.Digest {
				t.Fatalf("step %d on %d ranks: %v", step, len(got.shards), err)
			}
			got.close()
			if x, err := Compare(want, c); err != nil || !x.Equal() {
				t.Fatalf("step %d: %+v, %v", step, x, err)
			}
			var a, b bytes.Buffer
			if err := errors.Join(c.WriteTensors(&a), want.WriteTensors(&b)); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Fatalf("step %d: the exports differ: %v", step, err)
			}
			path, err := c.Consolidate(to)
			if err != nil {
				t.Fatal(err)
			}
			sameFiles(t, path, want.Path)
		}
		w.close()
	}
}

// A parent stays as long as an increment needs it, and is not replaced by a save of its step.
func TestParentsStay(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir, run := t.TempDir(), runOf("run", "1")
	check := func(steps ...string) {
		t.Helper()
		if got := names(t, dir); !slices.Equal(got, steps) {
			t.Fatalf("folder holds %v, want %v", got, steps)
		}
		for _, name := range steps {
			c, err := Open(env.Real(), filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if sum, bad := c.Verify(); len(bad) > 0 || sum.String() != c.Digest {
				t.Fatalf("%s: digest %v, want %v, %v", name, sum, c.Digest, bad)
			}
		}
	}
	save := func(step int64, share float64, parent *Parent) *Parent {
		s := &Save{Dir: dir, Step: step, Run: run, Parent: parent, Keep: 2}
		if err := w.saveRows(s, change(rnd, w, share)); err != nil {
			t.Fatal(err)
		}
		return s.AsParent()
	}
	one, two, three, four := stepName(1), stepName(2), stepName(3), stepName(4)
	p := save(2, 0.3, save(1, 1, nil))
	check(one, two)
	p = save(3, 0.3, p)
	check(one, two, three) // 3 needs 2, which needs 1
	// The run resumes from step 1 and saves step 2 again: increments of either stay usable.
	again := save(2, 1, &Parent{one, 1, parentSum(t, filepath.Join(dir, one))})
	other := nameOf(2, run.Lineage)
	if again.Name != other {
		t.Fatalf("step 2 is saved as %s", again.Name)
	}
	check(one, two, other, three)
	save(4, 0.3, again)
	if stays := save(2, 1, nil); stays != nil {
		t.Errorf("a save that is not published is the parent %+v", stays)
	}
	check(one, two, other, three, four) // both of step 2 are parents
	save(4, 1, p)
	check(one, two, three, four) // of the two newest, none needs the other one
	save(6, 0.3, save(5, 1, nil))
	check(stepName(5), stepName(6))
}

func parentSum(t *testing.T, path string) string {
	m, err := readManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	return m.sum
}

// Damage to a parent is found and named. The newest checkpoint that does not need it is used.
func TestDamagedParents(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	for _, how := range []string{"missing", "other", "rows", "sum"} {
		dir := t.TempDir()
		chain(t, rnd, w, 2, dir, t.TempDir())
		parent := filepath.Join(dir, stepName(20))
		switch rows := filepath.Join(parent, rowsFile(0)); how {
		case "missing":
			os.RemoveAll(parent)
		case "other": // it is complete, and not the parent
			os.RemoveAll(parent)
			if err := w.save(Save{Dir: dir, Step: 20, Run: runOf("run", "1")}); err != nil {
				t.Fatal(err)
			}
		case "rows":
			os.Remove(rows)
		case "sum":
			b, err := os.ReadFile(rows)
			if err != nil {
				t.Fatal(err)
			}
			b[rnd.IntN(len(b))] ^= 1
			if err := os.WriteFile(rows, b, 0o666); err != nil {
				t.Fatal(err)
			}
			c, err := Open(env.Real(), filepath.Join(dir, stepName(30)))
			if err != nil {
				t.Fatal(err)
			}
			if _, bad := c.Verify(); len(bad) != 1 || !strings.Contains(bad[0].Error(), stepName(20)) {
				t.Errorf("a flipped bit of a parent gave %v", bad)
			}
			if _, err := c.Consolidate(t.TempDir()); err == nil {
				t.Error("a damaged increment was consolidated")
			}
			continue
		}
		c, problems, err := Find(env.Real(), dir, 0)
		want := map[string]int64{"missing": 10, "other": 20, "rows": 10}[how]
		if err != nil || c == nil || c.Step != want || len(problems) == 0 {
			t.Fatalf("%s: found %+v, %v, %v", how, c, problems, err)
		}
		var orphan *Orphan
		if err := problems[0].Err; !errors.As(err, &orphan) || orphan.Parent != stepName(20) || !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// An increment is found by a link to it, and by a dot.
func TestIncrementByOtherPaths(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 1)
	defer w.close()
	dir := t.TempDir()
	chain(t, rnd, w, 2, dir, t.TempDir())
	at := filepath.Join(dir, stepName(30))
	link := filepath.Join(t.TempDir(), "newest")
	if err := os.Symlink(at, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(at)
	for _, path := range []string{at, link, ".", at + "/"} {
		if c, err := Open(env.Real(), path); err != nil || len(c.parents) != 2 {
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Chdir(dir)
	c, err := Open(env.Real(), stepName(30))
	if err != nil || c.AsParent(".", 1) == nil || c.AsParent("other", 1) != nil || c.AsParent(".", 2) != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// No increment follows more than MaxIncrements others.
func TestLongChainsAreRefused(t *testing.T) {
	rnd := random(t)
	w := newWorld(Model{Kind: "dlrm", Tables: []Table{{"a", 70}}, Width: 2, Tensors: []Tensor{{"b", []int64{1}}}}, 1)
	defer w.close()
	dir := t.TempDir()
	chain(t, rnd, w, MaxIncrements, dir, t.TempDir())
	last, err := Open(env.Real(), filepath.Join(dir, stepName(10*(MaxIncrements+1))))
	if err != nil {
		t.Fatal(err)
	}
	long := last.Manifest
	long.Step, long.Parent = last.Step+10, last.AsParent(dir, 1)
	s := &Save{Dir: dir, Step: long.Step, Run: long.Run, Parent: long.Parent}
	if err := w.saveRows(s, change(rnd, w, 1)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(MaxIncrements)) {
		t.Errorf("an increment too many was saved: %v", err)
	}
	// The manifest of another program has it.
	to := filepath.Join(dir, stepName(long.Step))
	b, err := long.encode()
	if err := errors.Join(err, os.CopyFS(to, os.DirFS(last.Path)), os.WriteFile(filepath.Join(to, manifestFile), b, 0o644)); err != nil {
		t.Fatal(err)
	}
	c, problems, err := Find(env.Real(), dir, 0)
	if err != nil || len(problems) != 1 || c.Step != 10*(MaxIncrements+1) ||
		!strings.Contains(problems[0].Err.Error(), fmt.Sprint(MaxIncrements)) {
		t.Fatalf("%+v, %v, %v", c, problems, err)
	}
	if full, later, n := c.ChainRows(); n != MaxIncrements || full != c.parents[0].Files[0].Rows || later <= 0 {
		t.Errorf("%d rows, %d later, %d increments", full, later, n)
	}
}
