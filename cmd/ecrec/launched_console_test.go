package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/ecrec/ecrec/internal/event"
)

// The console of a job under a launcher.

var (
	stepLine = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d step [0-9,]+/600  loss `)
	header   = regexp.MustCompile(`(?m)^run: dlrm, `)
)

// isPlain checks output to a file: no control characters, lines with the time for the first and the
// last step, one header.
func isPlain(t *testing.T, text string) {
	t.Helper()
	if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); at >= 0 {
		t.Errorf("a control character: %q", text[at:min(len(text), at+40)])
	}
	if n := len(header.FindAllString(text, -1)); n != 1 {
		t.Errorf("%d headers", n)
	}
	if steps := stepLine.FindAllString(text, -1); len(steps) < 2 || !strings.Contains(steps[0], " step 1/") ||
		!strings.Contains(steps[len(steps)-1], " step 600/") {
		t.Errorf("lines of steps: %q", steps)
	}
}

// Open MPI gives processes a pty, and nothing is redrawn on it.
func TestLaunchedConsole(t *testing.T) {
	if !*launchers {
		t.Skip("starts jobs with mpirun and Slurm: make test-launchers")
	}
	s := newSite(t, -1)
	for _, w := range []way{openMPI, mpich, srun} {
		t.Run(w.name, func(t *testing.T) {
			out := "console-" + w.name
			x := s.train(t, w, 4, out, "--chaos", "kill:0@300")
			r := x.over(t, anyCode)
			equal(t, w.name, readSummary(t, s.out(out)), s.want)
			isPlain(t, strings.ReplaceAll(r.stdout, "\r\n", "\n")) // the pty's line ends
			all, err := event.ReadFile(filepath.Join(s.out(out), event.File))
			if err != nil || len(all) < 4 || all[0].Event != event.Start || len(all[0].Members) != 4 || all[len(all)-1].Event != event.End {
				t.Fatalf("%v, events %+v", err, all)
			}
			var loss []event.Event
			for _, e := range all {
				if e.Event == event.Loss {
					loss = append(loss, e)
				}
			}
			if len(loss) != 1 || *loss[0].Process != 0 || loss[0].Node == "" || loss[0].PID == 0 || loss[0].ReplacedBy == nil ||
				loss[0].ReplacedBy.PID == 0 {
				t.Errorf("losses %+v", loss)
			}
		})
	}
}

// An error in the config is printed by one process, not by each.
func TestLaunchedBadConfig(t *testing.T) {
	if !*launchers {
		t.Skip("starts jobs with mpirun and Slurm: make test-launchers")
	}
	s := newSite(t, -1)
	for _, w := range []way{openMPI, mpich} {
		t.Run(w.name, func(t *testing.T) {
			r := s.train(t, w, 4, "bad-"+w.name, "--set", "train.global_bach=8").over(t, 2)
			if output := r.stdout + r.stderr; strings.Count(output, "unknown key train.global_bach") != 1 {
				t.Errorf("output: %s", output)
			}
		})
	}
}

// When Slurm loses a node, its name is on the console, in the log, in metrics.jsonl and in
// events.jsonl, with that of the spare that replaces it.
func TestLaunchedNodeIsNamed(t *testing.T) {
	if !*launchers || os.Getuid() != 0 {
		t.Skip("loses nodes of Slurm, as root: make test-launchers")
	}
	s := newSite(t, -1)
	s.has(t, srun)
	x := s.train(t, srun, 4, "named", "--set", "elastic.spares=1", "--set", "ec.k=2", "--set", "ranks.readers=1")
	s.untilRuns(t, "named")
	repair := s.cluster(t).loseNode(t, 2, x)
	r := x.over(t, anyCode)
	repair()
	for name, text := range map[string]string{"the console": r.stderr + r.stdout, "process-0.log": "", "metrics.jsonl": "",
		"events.jsonl": ""} {
		if text == "" {
			b, err := os.ReadFile(filepath.Join(s.out("named"), name))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		lost := regexp.MustCompile(`(?m)^(.*"event":"loss".*"node":"n2".*"replaced_by":\{"process":3,"node":"n3"|.*ecrec: node n2: process 2 \(.*\) .*a spare takes its place)`)
		if !lost.MatchString(text) {
			t.Errorf("%s does not name the lost node: %s", name, text)
		}
	}
	if !strings.Contains(r.stdout, "recovered from the loss of rank") || !strings.Contains(r.stdout, " on n2 at step ") {
		t.Errorf("stdout: %s", r.stdout)
	}
	if !regexp.MustCompile(`(?m)^3 processes on n0, n1, n2, 1 spare$`).MatchString(r.stdout) {
		t.Errorf("the header does not name the nodes: %s", r.stdout)
	}
}
