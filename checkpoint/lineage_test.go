package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

func runOf(name, seed string) *lineage.Run {
	r := lineage.New(name, lineage.Recipe{{Key: "job.seed", Value: seed}})
	return &r
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// Runs of two lineages, and one without a lineage, save to one folder one after the other.
// None replaces or removes checkpoints of another, and each keeps the number of its Keep.
func TestLineagesShareAFolder(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 2)
	defer w.close()
	dir := t.TempDir()
	a, b := runOf("a", "1"), runOf("b", "2")
	for _, run := range []*lineage.Run{nil, a, b} {
		for step := int64(1); step <= 3; step++ {
			w.fill(rnd, 0.5)
			if err := w.save(Save{Dir: dir, Step: step, Keep: 2, Run: run}); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := a.Lineage
	want := []string{stepName(2), nameOf(2, id), nameOf(2, b.Lineage), stepName(3), nameOf(3, id), nameOf(3, b.Lineage)}
	got := names(t, dir)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("folder holds %v, want %v", got, want)
	}
	w.fill(rnd, 0.5)
	if err := w.save(Save{Dir: dir, Step: 3, Run: a}); err != nil { // its own is replaced
		t.Fatal(err)
	}
	if again := names(t, dir); !slices.Equal(again, want) {
		t.Fatalf("folder holds %v, want %v", again, want)
	}
	found, err := List(env.Real(), dir)
	if err != nil || len(found) != 6 || found[0].Step != 3 || found[5].Step != 2 {
		t.Fatalf("%v: listed %v", err, found)
	}
	for _, f := range found {
		if f.Err != nil || filepath.Base(f.Path) == nameOf(f.Step, id) != (f.Run != nil && f.Run.Name == "a") {
			t.Errorf("%s is of %v, %v", f.Path, f.Run, f.Err)
		}
		if f.Run != nil && f.Run.Name == "a" && !reflect.DeepEqual(f.Run, a) {
			t.Errorf("run %+v, want %+v", f.Run, a)
		}
	}
	c, err := Open(env.Real(), filepath.Join(dir, nameOf(3, id)))
	if err != nil {
		t.Fatal(err)
	}
	if sum, bad := c.Verify(); len(bad) > 0 || sum != w.digest() {
		t.Errorf("what was replaced: %v", bad)
	}
}

// If another run may be saving, only leftovers of this lineage are removed.
func TestLeftoversOfOthersStay(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 1)
	defer w.close()
	dir := t.TempDir()
	a, b := runOf("a", "1"), runOf("b", "2")
	mine := []string{tmpName(stepName(1), a.Lineage, "7"), tmpName(nameOf(1, a.Lineage), a.Lineage, removed)}
	others := []string{tmpName(stepName(1), b.Lineage, "7"), stepName(2) + ".tmp-1"}
	for _, name := range append(mine, others...) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.save(Save{Dir: dir, Step: 5, Run: a}); err != nil {
		t.Fatal(err)
	}
	want := append([]string{stepName(5)}, others...)
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("folder holds %v, want %v", got, want)
	}
	if err := w.save(Save{Dir: dir, Step: 5, Run: a, Alone: true}); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{stepName(5)}) {
		t.Errorf("folder holds %v, want no leftovers", got)
	}
}

// One run at a time saves to a folder. The next one waits for the lock.
func TestOneRunSavesToAFolder(t *testing.T) {
	e, dir := env.Real(), filepath.Join(t.TempDir(), "a", "b")
	if err := CheckFree(dir); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
	l, err := Hold(e, dir, 0)
	if err != nil || !l.Holds() {
		t.Fatalf("%v", err)
	}
	_, again := Hold(e, dir, 20*time.Millisecond)
	for what, err := range map[string]error{"Hold": again, "CheckFree": CheckFree(dir)} {
		if !errors.As(err, new(*Busy)) || !errors.Is(err, ErrUnusable) || !strings.HasPrefix(err.Error(), dir+": another run") {
			t.Errorf("%s of a folder in use: %v", what, err)
		}
	}
	time.AfterFunc(30*time.Millisecond, l.Close)
	next, err := Hold(e, dir, 20*time.Second)
	if err != nil || !next.Holds() {
		t.Fatalf("after the one before: %v", err)
	}
	defer next.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if next.Holds() {
		t.Error("holds a folder that is gone")
	}
	if _, err := Hold(e, "/proc/none", 0); err == nil || !strings.Contains(err.Error(), "checkpoint.dir") {
		t.Errorf("a folder that cannot be made: %v", err)
	}
}

// A manifest that is not a regular file is not read: it might block, or never end.
func TestManifestsThatAreNoFiles(t *testing.T) {
	for what, create := range map[string]func(path string) error{
		"FIFO":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"sparse": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, maxManifest+1))
		},
	} {
		dir := t.TempDir()
		at := filepath.Join(dir, stepName(1))
		if err := errors.Join(os.Mkdir(at, 0o755), create(filepath.Join(at, manifestFile))); err != nil {
			t.Fatal(err)
		}
		done := beside(func() error {
			c, problems, err := Find(env.Real(), dir, 0)
			if c != nil || err != nil || len(problems) != 1 || !errors.As(problems[0].Err, new(*Corrupt)) {
				t.Errorf("%s: %v, problems %v, %v", what, c, problems, err)
			}
			return nil
		})
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it is waited for", what)
		}
	}
}

// A file that is not part of a checkpoint is not opened, even if the manifest names it.
func TestFilesThatAreNoFiles(t *testing.T) {
	rnd := random(t)
	w := newWorld(randomModel(rnd), 1)
	defer w.close()
	c := saved(t, w, Save{Dir: t.TempDir(), Step: 5}) // whose history has no bytes
	path := filepath.Join(c.Path, historyFile)
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	var corrupt *Corrupt
	if _, err := Open(env.Real(), c.Path); !errors.As(err, &corrupt) || corrupt.File != historyFile {
		t.Errorf("a FIFO: %v", err)
	}
}

// beside runs f at the same time as the test.
func beside(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// A field that a later version adds is ignored, unless the checkpoint needs it.
func TestFieldsOfLaterVersions(t *testing.T) {
	m := smallManifest()
	m.Run = runOf("a", "1")
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Replace(body, []byte(`{"step"`), []byte(`{"columns":{"label":"x"},"step"`), 1)
	got, err := parseManifest(sealed(format, later))
	m.sum = sumText(xxh3.HashSeed(later, format))
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v: %+v, want %+v", err, got, m)
	}
	m.Recipe = &File{Name: recipeFile, Bytes: 3, XXH3: sumText(9)}
	for _, change := range []string{"", "../" + recipeFile, denseFile} {
		if change != "" {
			m.Recipe.Name = change
		}
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseManifest(sealed(format, body)); (err != nil) != (change != "") {
			t.Errorf("a recipe in %s: %v", m.Recipe.Name, err)
		}
	}
	needed := bytes.Replace(body, []byte(`{"step"`), []byte(`{"needs":["parents"],"step"`), 1)
	var newer errNewer
	if _, err := parseManifest(sealed(format, needed)); !errors.As(err, &newer) || newer.needs != "parents" {
		t.Errorf("a feature that is not known: %v", err)
	}
	if e := (&Newer{"p", format, "parents"}); !strings.Contains(e.Error(), `"parents"`) || !strings.Contains(e.Error(), "newer") {
		t.Errorf("%v", e)
	}
}

// A checkpoint of format 1, as version 0.4.0 wrote it, is read to the last byte.
func TestFormat1(t *testing.T) {
	c, err := Open(env.Real(), "testdata/format-1")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.ReadRecipe(); text != nil || err != nil {
		t.Errorf("a recipe %q, %v", text, err)
	}
	if c.Run != nil || c.Step != 3 || c.Ranks != 2 || c.Model.Seed != 42 {
		t.Errorf("%+v", c.Manifest)
	}
	if sum, bad := c.Verify(); len(bad) > 0 || sum.String() != "81b3dd5bd89f9a3982e8b0d4e47e5639" {
		t.Errorf("digest %v, %v", sum, bad)
	}
	var tensors bytes.Buffer
	if err := c.WriteTensors(&tensors); err != nil || tensors.Len() != 4*(5+1+2*13+2+2*23) {
		t.Errorf("exported %d bytes, %v", tensors.Len(), err)
	}
	for _, ranks := range []int{1, 2, 3} {
		w := newWorld(c.Model, ranks)
		if err := w.load(c); err != nil || w.digest().String() != "81b3dd5bd89f9a3982e8b0d4e47e5639" {
			t.Errorf("%d ranks: %v, digest %v", ranks, err, w.digest())
		}
		w.close()
	}
}

// A manifest with correct sums is refused if its texts are longer than any run's.
func TestRunsOfAbsurdSize(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, run := range map[string]lineage.Run{
		"name":          {Name: long(maxNameBytes + 1)},
		"value":         {Recipe: lineage.Recipe{{Key: "k", Value: long(maxRecipeBytes)}}},
		"many entries":  {Recipe: make(lineage.Recipe, maxRecipe+1)},
		"many forks":    {Forks: make([]lineage.Fork, maxForks+1)},
		"what may pass": {Name: long(maxNameBytes), Recipe: lineage.Recipe{{Key: "k", Value: long(1 << 20)}}},
	} {
		if err := checkRun(&run); (err == nil) != (name == "what may pass") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Newest skips folders that are not yet checkpoints.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	if got := Newest(filepath.Join(dir, "none")); got != "" {
		t.Errorf("no folder: %q", got)
	}
	for _, name := range []string{stepName(2), stepName(10), stepName(11) + ".tmp-9b096c61-1", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := Newest(dir); got != stepName(10) {
		t.Errorf("got %q, want %q", got, stepName(10))
	}
}
