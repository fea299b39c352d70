package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench/paper"
)

// A run that fails, crashes or writes nonsense leaves its error, and the others are measured.
func TestRunsOfAReport(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "ecrec")
	script := `#!/bin/sh
for to; do :; done
echo "$@"
case $2 in
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
	r := reportRuns{app: a, program: program, session: s, dir: dir}
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
	if !strings.Contains(out.String(), "2/5  bench fails a=1 --repeats 2  (E5)\n        failed after ") {
		t.Errorf("progress: %s", out.String())
	}
}
