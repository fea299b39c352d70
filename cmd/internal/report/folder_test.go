package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// same treats configs with equal text as one run.
func same(config string) func(string) bool {
	return func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && string(text) == config
	}
}

func beginning(config string, resumed int64) Beginning {
	return Beginning{Config: []byte(config), Steps: 100, Resumed: resumed, Same: same(config)}
}

// trained returns a run that has written lines of metrics.
func trained(t *testing.T, dir string, b Beginning, steps ...int) *Run {
	t.Helper()
	r := begun(t, dir, b)
	for _, step := range steps {
		if err := r.Metrics(Metrics{Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// finish ends a run that saved a model, or failed.
func finish(t *testing.T, r *Run, model, digest string, failed error) {
	t.Helper()
	s := Summary{Name: "x", Digest: digest}
	if model != "" {
		put(t, NewModel(r.Dir()), model)
	}
	if failed != nil {
		s.Error = failed.Error()
	}
	if err := errors.Join(r.Finish(s), r.Close()); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// holds compares the files of a run with the expected ones: the config, the model, a part of the
// summary, and the steps of metrics.jsonl.
func holds(t *testing.T, dir, config, model, summary, steps string) {
	t.Helper()
	text := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name)) // a missing file is ""
		return string(b)
	}
	var got []string
	for line := range strings.Lines(text("metrics.jsonl")) {
		var step int
		if n, _ := fmt.Sscanf(line, `{"step":%d,`, &step); n == 1 {
			got = append(got, fmt.Sprint(step))
		}
	}
	if text("config.toml") != config || text("model.safetensors") != model || !strings.Contains(text("summary.json"), summary) ||
		(summary == "") != (text("summary.json") == "") || strings.Join(got, " ") != steps {
		t.Errorf("%s holds config %q, model %q, steps %v, summary %.300s\nwant %q, %q, %s, %s",
			dir, text("config.toml"), text("model.safetensors"), got, text("summary.json"), config, model, steps, summary)
	}
}

// A result stays complete until the next one is, whatever happens to a run over it.
func TestResultStays(t *testing.T) {
	for _, end := range []string{"fails", "is killed", "cannot write its model", "is stopped"} {
		dir := t.TempDir()
		finish(t, trained(t, dir, beginning("a", 0), 10, 20), "model a", "digest-a", nil)
		holds(t, dir, "a", "model a", `"digest": "digest-a"`, "10 20")

		r := trained(t, dir, beginning("b", 0), 10)
		holds(t, dir, "a", "model a", `"model": "model.safetensors"`, "10 20")
		switch end {
		case "fails":
			finish(t, r, "", "", errors.New("NaN"))
			holds(t, filepath.Join(dir, "unfinished"), "b", "", `"error": "NaN"`, "10")
		case "is killed":
			put(t, NewModel(dir), "model b, but for its summary")
			r.Close()
			holds(t, filepath.Join(dir, "unfinished"), "b", "", "", "10")
		case "cannot write its model":
			finish(t, r, "", "digest-b", errors.New("disk full"))
			holds(t, filepath.Join(dir, "unfinished"), "b", "", `"digest": "digest-b"`, "10")
		case "is stopped":
			put(t, NewModel(dir), "model b")
			if err := errors.Join(r.Finish(Summary{Digest: "digest-b", Stopped: true}), r.Close()); err != nil || r.Written() != filepath.Join(dir, "unfinished") {
				t.Fatal(err, r.Written())
			}
			holds(t, filepath.Join(dir, "unfinished"), "b", "model b", `"digest": "digest-b"`, "10")
		}
		holds(t, dir, "a", "model a", `"digest": "digest-a"`, "10 20")

		r = trained(t, dir, beginning("c", 0), 5)
		holds(t, filepath.Join(dir, "unfinished"), "c", "", "", "5")
		finish(t, r, "model c", "digest-c", nil)
		holds(t, dir, "c", "model c", `"digest": "digest-c"`, "5")
		if names := list(t, dir); !slices.Equal(names, []string{"config.toml", "metrics.jsonl", "model.safetensors",
			"process-0.log", "run.lock", "summary.json"}) {
			t.Errorf("%s: left behind: %v", end, names)
		}
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A run that resumes at its end keeps the same file as its model again: nothing of the second name is left.
func TestModelKeptAgain(t *testing.T) {
	dir := t.TempDir()
	finish(t, trained(t, dir, beginning("a", 0), 10), "model a", "digest-a", nil)
	r := trained(t, dir, beginning("a", 0), 10)
	if err := os.Link(filepath.Join(dir, ModelFile), NewModel(dir)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Finish(Summary{Digest: "digest-a"}), r.Close()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, "a", "model a", `"digest": "digest-a"`, "10")
	if exists(NewModel(dir)) {
		t.Errorf("left behind: %v", list(t, dir))
	}
}

// If a run dies while its files are renamed, at any point, the next run completes the renames, and removes what was written in part.
func TestDeathWhilePlacing(t *testing.T) {
	moves := [][2]string{{".model.safetensors.new", "model.safetensors"}, {"unfinished/metrics.jsonl", "metrics.jsonl"},
		{"unfinished/config.toml", "config.toml"}}
	for n := range len(moves) + 1 {
		dir := t.TempDir()
		finish(t, trained(t, dir, beginning("a", 0), 10), "model a", "digest-a", nil)
		r := trained(t, dir, beginning("b", 0), 20)
		put(t, NewModel(dir), "model b")
		halves := []string{filepath.Join(dir, "."+filepath.Base(NewModel(dir))+".tmp-1"), filepath.Join(dir, ".recipe.json.tmp-2"),
			filepath.Join(dir, unfinished, ".recipe.json.tmp-3")}
		for _, half := range halves {
			put(t, half, "mod")
		}
		if err := r.writeSummary(Summary{Digest: "digest-b", Model: ModelFile}); err != nil {
			t.Fatal(err)
		}
		r.Close()
		for _, m := range moves[:n] {
			if err := os.Rename(filepath.Join(dir, m[0]), filepath.Join(dir, m[1])); err != nil {
				t.Fatal(err)
			}
		}
		trained(t, dir, beginning("c", 0)).Close()
		holds(t, dir, "b", "model b", `"digest": "digest-b"`, "20")
		for _, half := range halves {
			if exists(half) {
				t.Errorf("after %d renames a file is left that a dead process wrote in part: %s", n, half)
			}
		}
	}
}

// A run without a model replaces one with a model completely. A failed run in a folder without a
// result leaves its summary in the usual place.
func TestOtherEnds(t *testing.T) {
	dir := t.TempDir()
	finish(t, trained(t, dir, beginning("a", 0), 10), "", "", errors.New("NaN"))
	holds(t, dir, "a", "", `"error": "NaN"`, "10")
	if found, err := Look(dir); found != nil || err != nil {
		t.Errorf("a failed run is a result: %v, %v", found, err)
	}
	r := trained(t, dir, beginning("a", 0), 20)
	holds(t, dir, "a", "", "", "20")
	finish(t, r, "model a", "digest-a", nil)
	found, err := Look(dir)
	if err != nil || found == nil || !strings.Contains(found.String(), "the result of run \"x\" (0 steps, digest digest-a, ended ") {
		t.Errorf("%v, %v", found, err)
	}
	finish(t, trained(t, dir, beginning("b", 0), 30), "", "digest-b", nil)
	holds(t, dir, "b", "", `"digest": "digest-b"`, "30")
}

// Metrics of a run that resumes follow those up to its checkpoint: over a result, without one, and if
// the run began over the result of another.
func TestMetricsOfAResumedRun(t *testing.T) {
	dir := t.TempDir()
	trained(t, dir, beginning("a", 0), 10, 20, 30).Close() // killed
	trained(t, dir, beginning("a", 20), 30).Close()
	holds(t, dir, "a", "", "", "10 20 30")
	finish(t, trained(t, dir, beginning("a", 15), 20, 30), "model a", "digest-a", nil)
	holds(t, dir, "a", "model a", "digest-a", "10 20 30")

	finish(t, trained(t, dir, beginning("a", 30), 40), "", "", errors.New("NaN"))
	holds(t, dir, "a", "model a", "digest-a", "10 20 30 40")

	trained(t, dir, beginning("b", 0), 7, 14).Close() // over a's result
	trained(t, dir, beginning("b", 7), 15).Close()
	holds(t, dir, "a", "model a", "digest-a", "10 20 30 40")
	holds(t, filepath.Join(dir, "unfinished"), "b", "", "", "7 15")
	finish(t, trained(t, dir, beginning("b", 15), 22), "model b", "digest-b", nil)
	holds(t, dir, "b", "model b", "digest-b", "7 15 22")
}

// One run at a time writes to a folder. The error for a second one names the first.
func TestOneRunInAFolder(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(CheckFree(filepath.Join(dir, "none")), CheckFree(dir)); err != nil {
		t.Errorf("nothing is there: %v", err)
	}
	r := begun(t, dir, beginning("a", 0))
	host, _ := os.Hostname()
	second, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	want := fmt.Sprintf("%s: another run is writing to this folder (process %d on %s, since ", dir, os.Getpid(), host)
	for what, err := range map[string]error{"Begin": second.Begin(beginning("a", 0)), "CheckFree": CheckFree(dir)} {
		if !errors.Is(err, ErrOutput) || !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%s of a folder in use: %v, want %s", what, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, lockFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the lock can be held by others: %v, %v", info.Mode(), err)
	}
	if err := errors.Join(r.Close(), CheckFree(dir)); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// A process that rank 0 moves to continues the run's files and takes the lock, even if the lost
// process still holds it. The start time of the run stays.
func TestAdopt(t *testing.T) {
	for _, held := range []bool{false, true} {
		for _, over := range []bool{false, true} {
			dir := t.TempDir()
			if over {
				finish(t, trained(t, dir, beginning("a", 0), 5), "model a", "digest-a", nil)
			}
			b := beginning("b", 0)
			b.Job = "job"
			lost := trained(t, dir, b, 1)
			if !held {
				lost.Close()
			}
			r, err := Open(dir, 2)
			if err == nil {
				b.Replaces = true
				err = r.Begin(b)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Metrics(Metrics{Step: 2}); err != nil || !r.Began.Equal(lost.Began) {
				t.Fatal(err, r.Began, lost.Began)
			}
			if err := CheckFree(dir); !errors.Is(err, ErrOutput) {
				t.Errorf("another run is let in: %v", err)
			}
			finish(t, r, "model b", "digest-b", nil)
			lost.Close()
			if err := CheckFree(dir); err != nil {
				t.Error(err)
			}
			holds(t, dir, "b", "model b", "digest-b", "1 2")
		}
	}
}

// A process that replaces one lost before the run began does not continue files: they are of the run
// before. After the run has begun it continues the run's own.
func TestReplacedBeforeTheBegin(t *testing.T) {
	dir := t.TempDir()
	finish(t, trained(t, dir, beginning("a", 0), 5), "model a", "digest-a", nil)
	b := beginning("a", 0)
	b.Job, b.Replaces = "job", true
	finish(t, trained(t, dir, b, 5, 10), "model b", "digest-b", nil)
	holds(t, dir, "a", "model b", "digest-b", "5 10")
	finish(t, trained(t, dir, b, 10), "model b", "digest-b", nil)
	holds(t, dir, "a", "model b", "digest-b", "5 10 10")
}

// Files of other programs count as results: a run does not replace them without a request.
func TestForeignFiles(t *testing.T) {
	for name, text := range map[string]string{"summary.json": `{"loss": 3}`, "config.toml": "[job]\n", "model.safetensors": "x"} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, name), text)
		if found, err := Look(dir); err != nil || found == nil || found.String() == "" {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "other"), "kept")
	for _, name := range []string{"metrics.jsonl", "process-0.log", "run.lock"} {
		link := filepath.Join(dir, name)
		if err := errors.Join(os.RemoveAll(link), os.Symlink("other", link)); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir, 0)
		if err == nil {
			err = r.Begin(beginning("a", 0))
			r.Close()
		}
		if !errors.Is(err, ErrOutput) || readAll(t, dir, "other") != "kept" {
			t.Errorf("%s: a link is followed: %v, %q", name, err, readAll(t, dir, "other"))
		}
		os.Remove(link)
	}
}

// A link named unfinished once made a run remove files of another folder.
func TestUnfinishedIsNoLink(t *testing.T) {
	other, dir := t.TempDir(), t.TempDir()
	put(t, filepath.Join(other, summaryFile), "kept")
	if err := os.Symlink(other, filepath.Join(dir, unfinished)); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, 0)
	if err == nil {
		err = r.Begin(beginning("a", 0))
		r.Close()
	}
	if !errors.Is(err, ErrOutput) || readAll(t, other, summaryFile) != "kept" {
		t.Errorf("a link is followed: %v", err)
	}
}

// A summary that is not a regular file once made a run wait, or read forever.
func TestSummaryThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, summaryFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Look(dir); err != nil || found == nil || found.Foreign != summaryFile {
		t.Errorf("%v, %v", found, err)
	}
}

func TestNumbered(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs", "b")
	for _, want := range []string{"b", "b-2", "b-3"} {
		got, err := ClaimNumbered(out)
		if err != nil || filepath.Base(got) != want {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
		if err := Link(Latest(out), got); err != nil {
			t.Fatal(err)
		}
	}
	// A killed process with this id left the file.
	if err := errors.Join(os.Symlink("b", fmt.Sprintf("%s.tmp-%d", Latest(out), os.Getpid())), Link(Latest(out), out+"-3")); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(Latest(out)); err != nil || to != "b-3" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if newest, next := Numbered(out); filepath.Base(newest) != "b-3" || filepath.Base(next) != "b-4" {
		t.Errorf("%s, %s", newest, next)
	}
	if err := Link(out, out); !errors.Is(err, ErrOutput) {
		t.Errorf("a folder gives way to a link: %v", err)
	}
}
