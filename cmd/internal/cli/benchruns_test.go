package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/bench/paper"
)

// A run that fails, crashes or writes nonsense leaves its error, and the others are measured.
func TestRunsOfAReport(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "ecrec")
	script := `#!/bin/sh
for to; do :; done
echo "$@"
[ -e "${to%/*}/session.json" ] || exit 9
case $2 in
hangs) trap 'echo asked; kill $!; exit 1' INT; sleep 30 & wait;;
fails) echo "ecrec: no such thing" >&2; exit 3;;
crashes) kill -9 $$;;
writes) echo '{"bench":' >"$to";;
*) echo '{"bench":"'$2'"}' >"$to";;
esac
`
	if err := os.WriteFile(program, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	s := &paper.Session{Program: "hash"}
	for _, name := range []string{"good", "fails", "crashes", "writes", "last"} {
		run := paper.Run{Bench: name, Args: []string{"a=1"}, Repeats: 2}
		s.Runs = append(s.Runs, paper.RunRecord{Run: run, File: run.File(), Figures: []string{"E5"}})
	}
	var out strings.Builder
	a := &app{out: &out, stop: newStopper(io.Discard)}
	defer a.stop.restoreSignals()
	r := reportRuns{app: a, program: program, session: s, dir: dir, limit: time.Minute}
	if err := r.measureAll(); err != nil {
		t.Fatal(err)
	}
	kept, err := readSession(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "no such thing", "signal: killed", "unexpected end of JSON input", ""} {
		x := kept.Runs[i]
		if (want == "") != x.Done || (want == "") != (x.Error == "") || !strings.Contains(x.Error, want) {
			t.Errorf("%s: done %v, error %q, want %q", x.Run.Bench, x.Done, x.Error, want)
		}
		text, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(x.File, ".json")+".txt"))
		if err != nil || !strings.HasPrefix(string(text), "bench "+x.Run.Bench+" a=1 --repeats 2 --json ") {
			t.Errorf("%s: output %q, %v", x.Run.Bench, text, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	r.limit, r.session = 300*time.Millisecond, &paper.Session{Runs: []paper.RunRecord{{Run: paper.Run{Bench: "hangs"}, File: "hangs.json"}}}
	if err := r.measureAll(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "hangs.txt"))
	if x := r.session.Runs[0]; err != nil || !strings.HasSuffix(string(text), "asked\n") || x.Done || x.Error != "stopped after 300ms" {
		t.Errorf("a run without an end: %+v, %q, %v", x, text, err)
	}
	if !strings.Contains(out.String(), "2/5  bench fails a=1 --repeats 2  (E5)\n2/5  failed after ") {
		t.Errorf("progress: %s", out.String())
	}
}

// Timed runs are alone. Runs of counts wait for each other here, so they end only if they run beside each other, and after the others.
func TestLanesOfAReport(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "ecrec")
	script := `#!/bin/sh
for to; do :; done
cd "${to%/*}" || exit 9
case $2 in
timed*) mkdir alone || exit 1; sleep 0.1; [ ! -e cache ] && [ ! -e load ] && rmdir alone || exit 1;;
cache) touch cache; until [ -e load ]; do sleep 0.01; done;;
load) touch load; until [ -e cache ]; do sleep 0.01; done;;
esac
echo '{"bench":"'$2'"}' >"$to"
`
	if err := os.WriteFile(program, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	s := &paper.Session{Seconds: 100}
	for _, name := range []string{"cache", "timed1", "load", "timed2"} {
		run := paper.Run{Bench: name}
		s.Runs = append(s.Runs, paper.RunRecord{Run: run, File: run.File()})
	}
	a := &app{out: io.Discard, stop: newStopper(io.Discard)}
	defer a.stop.restoreSignals()
	r := reportRuns{app: a, program: program, session: s, dir: dir, limit: time.Minute, lanes: 2}
	if err := r.measureAll(); err != nil {
		t.Fatal(err)
	}
	for _, x := range s.Runs {
		if !x.Done {
			t.Errorf("%s: %s", x.Run, x.Error)
		}
	}
	if s.Seconds < 100.2 || s.Seconds > 160 {
		t.Errorf("the runs took 0.2 s, and those before 100 s: %g s are recorded", s.Seconds)
	}
}

// A report is not drawn over the files of a user, nor over those of another report.
func TestDrawingsOverwriteNothing(t *testing.T) {
	from, foreign, other, drawn := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(from, runsFolder), filepath.Join(other, runsFolder)} {
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(foreign, "index.html"), filepath.Join(other, reportFile), filepath.Join(drawn, reportFile)} {
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for out, want := range map[string]string{from: "", t.TempDir(): "", filepath.Join(from, "new"): "", drawn: "", foreign: "has no report",
		other: "runs of its own"} {
		err := (&benchReportCmd{From: from, Out: out}).checkDrawing()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A report of some figures keeps what an earlier session measured of others. A run of another program is not reused.
func TestResumeSomeFigures(t *testing.T) {
	out := t.TempDir()
	if err := os.Mkdir(filepath.Join(out, runsFolder), 0o777); err != nil {
		t.Fatal(err)
	}
	record := func(name, program string) paper.RunRecord {
		run := paper.Run{Bench: name}
		if err := os.WriteFile(filepath.Join(out, runsFolder, run.File()), []byte(`{"bench":"`+name+`"}`), 0o666); err != nil {
			t.Fatal(err)
		}
		return paper.RunRecord{Run: run, File: run.File(), Done: program != "", Program: program, Seconds: 1}
	}
	wanted, kept, other, never := record("wanted", "p"), record("kept", "p"), record("other", "q"), record("never", "")
	old := &paper.Session{Size: "quick", Seconds: 3, Runs: []paper.RunRecord{kept, wanted, other, never}}
	for _, c := range []struct {
		only, before, want []string
		size               string
		runs               int
	}{{[]string{"E5"}, nil, nil, "quick", 2}, {[]string{"E5"}, []string{"B7"}, []string{"B7", "E5"}, "quick", 2},
		{[]string{"E5"}, nil, []string{"E5"}, "full", 1}, {nil, nil, nil, "quick", 1}} {
		s := &paper.Session{Size: c.size, Only: c.only, Program: "p", Runs: []paper.RunRecord{{Run: wanted.Run, File: wanted.File}}}
		old.Only = c.before
		(&benchReportCmd{Out: out, Only: c.only}).reuseRuns(s, old)
		if !slices.Equal(s.Only, c.want) || len(s.Runs) != c.runs || s.Seconds != 3 {
			t.Errorf("%+v: only %v, runs %+v, %g s", c, s.Only, s.Runs, s.Seconds)
		}
		for _, x := range s.Runs {
			if !x.Done || !x.Reused {
				t.Errorf("%+v: %+v is measured again", c, x)
			}
		}
	}
}

// Two reports in one folder would overwrite each other's record.
func TestReportsAreAlone(t *testing.T) {
	c := &benchReportCmd{Out: t.TempDir()}
	lock, err := c.lockRuns()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.lockRuns(); err == nil || !strings.Contains(err.Error(), "another report") {
		t.Errorf("a second report: %v", err)
	}
	lock.Close()
	if lock, err = c.lockRuns(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

// A folder that only a killed report has begun is free. One with files of a user is refused, and one with a report needs --resume.
func TestFoldersOfReports(t *testing.T) {
	free, runs, other, done := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for path, content := range map[string]string{filepath.Join(free, runsFolder, lockFile): "", filepath.Join(runs, runsFolder, "mine"): "",
		filepath.Join(other, "mine"): "", filepath.Join(done, runsFolder, sessionFile): "{}"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		out    string
		resume bool
		want   string
	}{{filepath.Join(free, "new"), false, ""}, {free, false, ""}, {runs, false, "not empty"}, {other, false, "not empty"}, {done, false, "--resume"},
		{done, true, ""}, {free, true, "no report"}} {
		old, err := (&benchReportCmd{Out: x.out, Resume: x.resume}).readOld()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) || (old != nil) != (x.resume && err == nil) {
			t.Errorf("%+v: %v, %v", x, old, err)
		}
	}
}
