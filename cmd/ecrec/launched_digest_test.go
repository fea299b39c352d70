package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The result is that of one process for every launcher.
func TestLaunchedOneDigest(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, w := range []way{{"--np", false, nil}, openMPI, mpich, srun, srunPMI, srunPlain} {
			t.Run(w.name, func(t *testing.T) {
				out := "out-" + w.name
				var x *launched
				if w.line == nil {
					x = s.start(t, out, s.command(out, "--np", "4"))
				} else {
					x = s.train(t, w, 4, out)
				}
				x.over(t, 0)
				equal(t, w.name, readSummary(t, s.out(out)), s.want)
			})
		}
	})
}

// Every rank dies once. The result and the exit code are those of a run without faults.
func TestLaunchedWorkersKilled(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, w := range []way{openMPI, mpich, srun, srunPMI, srunPlain} {
			t.Run(w.name, func(t *testing.T) {
				var faults []string
				for rank := range 4 {
					faults = append(faults, "--chaos", fmt.Sprintf("kill:%d@%d", rank, 100+120*rank))
				}
				out := "killed-" + w.name
				s.train(t, w, 4, out, faults...).over(t, 0)
				got := readSummary(t, s.out(out))
				if len(got.Recoveries) != 4 {
					t.Errorf("%d recoveries of 4 losses", len(got.Recoveries))
				}
				equal(t, w.name, got, s.want)
			})
		}
	})
}

// A job sends its commits to a topic. Another one, with another number of processes, continues from a step in the middle of it, sends
// its own there, and ends with the result of the undisturbed run.
func TestLaunchedTopic(t *testing.T) {
	eachUser(t, func(t *testing.T, s *site) {
		for _, w := range []way{openMPI, mpich, srun} {
			t.Run(w.name, func(t *testing.T) {
				to := "file:" + s.out("topic-"+w.name)
				stream := []string{"--set", "stream.to=" + to, "--set", "ec.commit_every=20"}
				s.train(t, w, 4, "streams-"+w.name, stream...).over(t, 0)
				resumed := "from-topic-" + w.name
				got := s.train(t, w, 2, resumed, append(stream, "--resume", to+"@300")...).over(t, 0)
				if line := "resuming after step 300 of " + to; !strings.Contains(got.stdout, line) {
					t.Errorf("no line %q in: %s", line, got.stdout)
				}
				equal(t, w.name, readSummary(t, s.out(resumed)), s.want)
				made := s.out("followed-" + w.name)
				s.start(t, "follow-"+w.name, []string{s.program, "follow", to, "--to", made, "--at", "end"}).over(t, 0)
				inspected := s.start(t, "inspect-"+w.name, []string{s.program, "inspect", filepath.Join(made, stepFolder(600))}).over(t, 0)
				if !strings.Contains(inspected.stdout, s.want.Digest) {
					t.Errorf("the followed model has another digest than %s: %s", s.want.Digest, inspected.stdout)
				}
			})
		}
	})
}
