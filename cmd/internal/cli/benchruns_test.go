package cli

import (
	"io"
	"os"
	"path/filepath"
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
	if !strings.Contains(out.String(), "2/5  bench fails a=1 --repeats 2  (E5)\n        failed after ") {
		t.Errorf("progress: %s", out.String())
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
