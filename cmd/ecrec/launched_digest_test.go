package main

import (
	"fmt"
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
