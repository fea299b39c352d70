package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// saved creates a random world of n ranks and saves it.
func saved(t *testing.T, w *world, s Save) *Checkpoint {
	t.Helper()
	if err := w.save(s); err != nil {
		t.Fatal(err)
	}
	c, problems, err := Find(env.Real(), s.Dir, 0)
	if err != nil || c == nil || len(problems) > 0 || c.Step != s.Step || c.Path != s.Path() {
		t.Fatalf("found %+v, problems %v, error %v", c, problems, err)
	}
	return c
}

// A model that was saved on N ranks is the same on M ranks: every byte is equal, and no
// other row is touched.
func TestSaveOnNLoadOnM(t *testing.T) {
	rnd := random(t)
	for range 12 {
		m := randomModel(rnd)
		n, k := 1+rnd.IntN(6), 1+rnd.IntN(6)
		w := newWorld(m, n)
		w.fill(rnd, []float64{0, 0.02, 0.5, 1}[rnd.IntN(4)])
		c := saved(t, w, Save{Dir: t.TempDir(), Step: rnd.Int64N(1 << 30), Generation: rnd.Uint64()})
		got := newWorld(m, k)
		if err := got.load(c); err != nil {
			t.Fatalf("%d ranks to %d: %v", n, k, err)
		}
		touched := func(w *world) (total int64) {
			for _, h := range w.shards {
				total += h.Touched()
			}
			return total
		}
		if got.digest() != w.digest() || touched(got) != touched(w) {
			t.Fatalf("%d ranks to %d: digest %v, want %v; %d rows, want %d", n, k, got.digest(), w.digest(), touched(got), touched(w))
		}
		if !bytes.Equal(got.weights, w.weights) || !bytes.Equal(got.state, w.state) {
			t.Fatal("the dense part differs")
		}
		h, err := c.ReadHistory()
		if err != nil || !bytes.Equal(h, history(c.Step)) {
			t.Fatalf("history %v, %v", h, err)
		}
		sum, bad := c.Verify()
		if len(bad) > 0 || sum != w.digest() || c.Digest != sum.String() {
			t.Fatalf("Verify: digest %v, want %v, as in the manifest %s; %v", sum, w.digest(), c.Digest, bad)
		}
		got.close()
		w.close()
	}
}

// Files of several blocks, with rows across their borders.
func TestLargeFiles(t *testing.T) {
	rnd := random(t)
	m := Model{Kind: "dlrm", Tables: []Table{{"a", 30011}}, Width: 33, RowState: 4, Tensors: []Tensor{{"b", []int64{1 << 19}}}, DenseState: 1}
	w := newWorld(m, 2)
	defer w.close()
	w.fill(rnd, 0.9)
	c := saved(t, w, Save{Dir: t.TempDir(), Step: 1})
	for _, ranks := range []int{2, 3} {
		got := newWorld(m, ranks)
		if err := got.load(c); err != nil || got.digest() != w.digest() {
			t.Fatalf("%d ranks: %v, digest %v, want %v", ranks, err, got.digest(), w.digest())
		}
		got.close()
	}
}

// An export holds every row, touched or not. Any reader of safetensors can read the files
// of a checkpoint.
func TestWriteTensors(t *testing.T) {
	rnd := random(t)
	m := randomModel(rnd)
	w := newWorld(m, 3)
	defer w.close()
	w.fill(rnd, 0.3)
	c := saved(t, w, Save{Dir: t.TempDir(), Step: 1})
	var got bytes.Buffer
	if err := c.WriteTensors(&got); err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(w.weights)
	place := m.placeRows(3)
	for g := range place.Rows() {
		row := make([]float32, m.Width)
		if err := w.shards[g%3].Export(row, g/3, 1); err != nil {
			t.Fatal(err)
		}
		want = append(want, floatBytes(row)...)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatal("the export is not what the shards hold")
	}
	total := int64(0)
	for _, s := range c.Specs() {
		n, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != int64(len(want)) {
		t.Errorf("specs of %d bytes, wrote %d", total, len(want))
	}
	for _, f := range c.Files[:4] {
		s, err := safetensors.Open(filepath.Join(c.Path, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

// Checkpoints of a run share the file of a large recipe. A small or another recipe is written anew.
func TestLargeRecipeIsWrittenOnce(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir := t.TempDir()
	large, other := bytes.Repeat([]byte("r"), sharedBytes), bytes.Repeat([]byte("s"), sharedBytes)
	var before *Checkpoint
	for i, c := range []struct {
		recipe []byte
		shared bool
	}{{large, false}, {large, true}, {other, false}, {[]byte("small"), false}, {[]byte("small"), false}, {large, false}, {large, true}} {
		s := Save{Dir: dir, Step: int64(i + 1), Keep: 2, Recipe: c.recipe}
		if before != nil {
			s.Earlier = before.Path
		}
		got := saved(t, w, s)
		if text, err := got.ReadRecipe(); err != nil || !bytes.Equal(text, c.recipe) {
			t.Errorf("save %d: a recipe of %d bytes, %v", i, len(text), err)
		}
		if before != nil {
			a, _ := os.Stat(filepath.Join(before.Path, recipeFile))
			b, _ := os.Stat(filepath.Join(got.Path, recipeFile))
			if os.SameFile(a, b) != c.shared {
				t.Errorf("save %d: shared is %v, want %v", i, !c.shared, c.shared)
			}
		}
		before = got
	}
	if err := os.RemoveAll(before.Path); err != nil {
		t.Fatal(err)
	}
	if got := saved(t, w, Save{Dir: dir, Step: 20, Recipe: large, Earlier: before.Path}); got.Recipe.Bytes != sharedBytes {
		t.Errorf("without the earlier checkpoint: %+v", got.Recipe)
	}
}

// Any damage to a file of the newest checkpoint is found and named, and the checkpoint
// before is loaded.
func TestDamageIsFoundAndNamed(t *testing.T) {
	rnd := random(t)
	m := randomModel(rnd)
	w := newWorld(m, 2)
	defer w.close()
	w.fill(rnd, 0.5)
	dir := t.TempDir()
	saved(t, w, Save{Dir: dir, Step: 3})
	c := saved(t, w, Save{Dir: dir, Step: 9, Recipe: []byte("a recipe")})
	if text, err := c.ReadRecipe(); err != nil || string(text) != "a recipe" {
		t.Errorf("the recipe is %q, %v", text, err)
	}
	files := []string{manifestFile}
	for _, f := range c.AllFiles() {
		files = append(files, f.Name)
	}
	for _, name := range files {
		path := filepath.Join(c.Path, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		damage := map[string][]byte{"cut": good[:len(good)-1-rnd.IntN(min(len(good)-1, 3))],
			"longer": append(bytes.Clone(good), 'x'), "missing": nil}
		for range 8 {
			flipped := bytes.Clone(good)
			flipped[rnd.IntN(len(flipped))] ^= 1 << rnd.IntN(8)
			damage["bit "+string(rune('a'+len(damage)))] = flipped
		}
		for how, b := range damage {
			if b == nil {
				os.Remove(path)
			} else if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			checkNamed(t, dir, name, how)
		}
		if err := os.WriteFile(path, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkNamed checks that a damaged file is named, by Find or while it is read.
func checkNamed(t *testing.T, dir, name, how string) {
	t.Helper()
	c, problems, err := Find(env.Real(), dir, 0)
	if err != nil || c == nil {
		t.Fatalf("%s, %s: %v", name, how, err)
	}
	var found error
	if c.Step == 9 {
		_, bad := c.Verify()
		if len(bad) != 1 {
			t.Fatalf("%s, %s: Verify found %v", name, how, bad)
		}
		found = bad[0]
	} else if len(problems) == 1 && c.Step == 3 {
		found = problems[0].Err
	}
	var corrupt *Corrupt
	if !errors.As(found, &corrupt) || corrupt.File != name || !errors.Is(found, ErrUnusable) || !strings.Contains(found.Error(), name) {
		t.Errorf("%s, %s: step %d, problems %v, found %v", name, how, c.Step, problems, found)
	}
}

func TestKeepReplaceAndLeftovers(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir := filepath.Join(t.TempDir(), "a", "b") // made by Begin
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	want := func(steps ...int64) {
		t.Helper()
		var all []string
		for _, s := range steps {
			all = append(all, stepName(s))
		}
		if got := names(); !slices.Equal(got, all) {
			t.Fatalf("folder holds %v, want %v", got, all)
		}
	}
	for step := int64(1); step <= 4; step++ {
		w.fill(rnd, 0.5)
		saved(t, w, Save{Dir: dir, Step: step, Keep: 2})
	}
	want(3, 4)
	// Another run died while it saved. This one resumes from step 3 and saves step 4 again.
	if err := os.MkdirAll(filepath.Join(dir, stepName(4)+tmpMark+"unknown-77", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.fill(rnd, 0.5)
	c := saved(t, w, Save{Dir: dir, Step: 4, Keep: 2, Generation: 1})
	if sum, bad := c.Verify(); len(bad) > 0 || sum != w.digest() {
		t.Fatalf("step 4 was not replaced: %v", bad)
	}
	want(3, 4)
	if err := w.save(Save{Dir: dir, Step: 2, Keep: 1}); err != nil {
		t.Fatal(err)
	}
	want(2, 3, 4) // later ones are not removed
	c, _, err := Find(env.Real(), dir, 4)
	if err != nil || c.Step != 3 {
		t.Fatalf("below step 4: %v, %v", c, err)
	}
	if c, problems, err := Find(env.Real(), filepath.Join(dir, "none"), 0); c != nil || problems != nil || err != nil {
		t.Fatalf("no folder gave %v, %v, %v", c, problems, err)
	}
}

func TestOtherModelsAndVersionsAreRefused(t *testing.T) {
	rnd := random(t)
	m := randomModel(rnd)
	w := newWorld(m, 1)
	defer w.close()
	c := saved(t, w, Save{Dir: t.TempDir(), Step: 5})
	other := m
	other.Width++
	other.Seed++
	other.Tables = slices.Clone(m.Tables)
	other.Tables[0].Rows++
	other.Tensors = []Tensor{{"new", []int64{1}}, m.Tensors[1]}
	err := c.Check(other)
	if !errors.As(err, new(*Mismatch)) || !errors.Is(err, ErrUnusable) {
		t.Fatalf("another model: %v", err)
	}
	for _, what := range []string{"model.embedding_dim", "job.seed", "emb_l.0.weight", "top.weight", "new is missing there"} {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("%v: does not name %s", err, what)
		}
	}
	reordered := m
	reordered.Tensors = []Tensor{m.Tensors[1], m.Tensors[0]}
	weights, state := make([]byte, len(w.weights)), make([]byte, len(w.state))
	if err := errors.Join(c.Check(reordered), c.ReadDense(reordered, weights, state)); err != nil {
		t.Fatal(err)
	}
	n, _ := safetensors.Spec{Shape: m.Tensors[1].Shape}.Bytes()
	if !bytes.Equal(weights[:n], w.weights[int64(len(weights))-n:]) {
		t.Error("tensors in another order are not found by name")
	}
	newer := rewrite(t, c, format+1)
	if _, _, err := Find(env.Real(), filepath.Dir(c.Path), 0); !errors.As(err, new(*Newer)) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("format %d gave %v", newer, err)
	}
	if _, err := Open(env.Real(), t.TempDir()); !errors.As(err, new(*NotFound)) {
		t.Errorf("an empty folder gave %v", err)
	}
}

// A full disk and a folder that cannot be written are clear errors. Existing files stay.
func TestFoldersThatCannotBeWritten(t *testing.T) {
	rnd := random(t)
	w := newWorld(Model{Kind: "dlrm", Tables: []Table{{"a", 20000}}, Width: 16, Tensors: []Tensor{{"b", []int64{3}}}}, 2)
	defer w.close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.save(Save{Dir: filepath.Join(file, "sub"), Step: 1}); err == nil || !strings.Contains(err.Error(), "checkpoint.dir") {
		t.Errorf("a folder below a file gave %v", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small disk to fill: mount: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	w.shards[0].StoreRaw([]int32{1}, make([]byte, 64))
	saved(t, w, Save{Dir: dir, Step: 1})
	w.fill(rnd, 1)
	if err := w.save(Save{Dir: dir, Step: 2}); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("a full disk gave %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 || entries[0].Name() != stepName(1) {
		t.Errorf("left on the full disk: %v", entries)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.save(Save{Dir: dir, Step: 2}); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "choose another checkpoint.dir") {
		t.Errorf("a read-only disk gave %v", err)
	}
}
