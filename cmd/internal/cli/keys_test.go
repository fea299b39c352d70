package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ecrec/ecrec/config"
)

// TestEveryKeyHasAnEffect changes every key of the config. The effect in keyEffects must follow,
// or the key must be refused. (model.dropout and two others were once accepted without effect.)
func TestEveryKeyHasAnEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	bases := newBases(t)
	for _, key := range config.Keys() {
		e, ok := keyEffects[key]
		if !ok {
			t.Errorf("%s: add a row to keyEffects that says how one sees that it is not the default", key)
			continue
		}
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			e.config = cmp.Or(e.config, "run.toml")
			without := bases.without(t, e)
			sets := append(slices.Clone(e.with), e.set...)
			if !slices.ContainsFunc(e.set, func(s string) bool { return strings.HasPrefix(s, key+"=") }) {
				t.Fatalf("%v sets another key", e.set)
			}
			with := bases.run(t, e, sets...)
			if !e.shows(without, with, key) {
				t.Errorf("%v shows nowhere: without it\n%s\nwith it\n%s", e.set, without, with)
			}
		})
	}
	for key := range keyEffects {
		if !slices.Contains(config.Keys(), key) {
			t.Errorf("%s is no key any more: delete its row", key)
		}
	}
}

// effect is a change of a key, and the difference from a run without the change.
type effect struct {
	config string   // of keyFiles; default: run.toml
	with   []string // settings of both runs
	set    []string // the change
	args   []string // further arguments of both
	shows  func(without, with *outcome, key string) bool
}

// outcome holds the output of a run.
type outcome struct {
	code    int
	output  string
	files   map[string]string // name to content, of all that it wrote
	summary map[string]any
}

func (o *outcome) String() string {
	names := make([]string, 0, len(o.files))
	for name := range o.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(append([]string{o.output}, names...), "\n")
}

// value returns the value at a path in summary.json.
func (o *outcome) value(path string) (v any) {
	v = o.summary
	for _, name := range strings.Split(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(of) {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}

// matching returns the number of files whose names match a pattern.
func (o *outcome) matching(pattern string) (n int) {
	for name := range o.files {
		if ok, err := filepath.Match(pattern, name); err != nil {
			panic(err)
		} else if ok {
			n++
		}
	}
	return n
}

// bases holds the files of all runs, and the runs without a change, which several rows share.
type bases struct {
	dir  string
	mu   sync.Mutex
	runs map[string]func() *outcome
}

// without returns the run without the change of an effect.
func (b *bases) without(t *testing.T, e effect) *outcome {
	t.Helper()
	b.mu.Lock()
	what := fmt.Sprintf("%q %q %q", e.config, e.with, e.args)
	run, ok := b.runs[what]
	if !ok {
		run = sync.OnceValue(func() *outcome { return b.run(t, e, e.with...) })
		b.runs[what] = run
	}
	b.mu.Unlock()
	return run()
}

// newBases prepares the files of all runs: keyFiles, and a model to start from.
func newBases(t *testing.T) *bases {
	archive := txtar.Parse([]byte(keyFiles))
	b := &bases{dir: t.TempDir(), runs: map[string]func() *outcome{}}
	for _, f := range archive.Files {
		if err := os.WriteFile(filepath.Join(b.dir, f.Name), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	model := b.run(t, effect{config: "run.toml"}, "job.seed=3").files["runs/run/model.safetensors"]
	if err := os.WriteFile(filepath.Join(b.dir, "init.safetensors"), []byte(model), 0o644); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "data", "produce", "train.csv", "--to", "file:topic")
	cmd.Args[0], cmd.Dir = "ecrec", b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return b
}

// run trains in a folder of its own.
func (b *bases) run(t *testing.T, e effect, sets ...string) *outcome {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	before := readFiles(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"train", e.config}, e.args...)
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "ecrec" // see TestMain
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, ".cache"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // its code says it
	o := &outcome{code: cmd.ProcessState.ExitCode(), output: out.String(), files: readFiles(t, dir)}
	for name := range before {
		delete(o.files, name)
	}
	if text, ok := o.files["runs/run/summary.json"]; ok {
		if err := json.Unmarshal([]byte(text), &o.summary); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Kinds of effects.

// digest: the model has different bits.
func digest(without, with *outcome, _ string) bool {
	return without.code == 0 && with.code == 0 && without.value("digest") != with.value("digest")
}

// refused: the config is refused with the name of the key, before anything is written.
func refused(_, with *outcome, key string) bool {
	return with.code == 2 && strings.Contains(with.output, ": "+key+": ") && len(with.files) == 0
}

// code: the run ends with a different exit code.
func code(without, with *outcome, _ string) bool { return without.code != with.code }

// says: the program prints a text that it does not print without the change.
func says(text string) func(without, with *outcome, key string) bool {
	return func(without, with *outcome, _ string) bool {
		return !strings.Contains(without.output, text) && strings.Contains(with.output, text)
	}
}

// figure: a figure of summary.json differs.
func figure(path string) func(without, with *outcome, key string) bool {
	return func(without, with *outcome, _ string) bool {
		return without.code == 0 && with.code == 0 && !reflect.DeepEqual(without.value(path), with.value(path))
	}
}

// files: the number of files with such names differs.
func files(pattern string) func(without, with *outcome, key string) bool {
	return func(without, with *outcome, _ string) bool {
		return without.code == 0 && with.code == 0 && without.matching(pattern) != with.matching(pattern)
	}
}

// logs: a line of a log has a text, or none has, depending on the change.
func logs(name, text string) func(without, with *outcome, key string) bool {
	return func(without, with *outcome, _ string) bool {
		has := func(o *outcome) bool {
			for path, content := range o.files {
				if filepath.Base(path) == name && strings.Contains(content, text) {
					return true
				}
			}
			return false
		}
		return has(without) != has(with)
	}
}

// lines: the number of lines of a file differs.
func lines(name string) func(without, with *outcome, key string) bool {
	return func(without, with *outcome, _ string) bool {
		return strings.Count(without.files[name], "\n") != strings.Count(with.files[name], "\n")
	}
}
