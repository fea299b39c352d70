package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStandby kills workers and nodes of real jobs once their standbys wait. The standbys take the places, and
// the results are those of runs without a loss.
func TestStandby(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranks  int
		sets   []string
		roles  []string // sets that change bits
		faults []string
		turned int // standbys that became workers
	}{
		{"a worker, twice", 3, nil, nil, []string{"kill:1@60:steady", "kill:1@120:steady"}, 2},
		{"rank 0", 3, []string{"cache.mode=lrpp"}, nil, []string{"kill:0@60:steady"}, 1},
		{"two workers at once", 6, []string{"ec.code=rs", "ec.k=4", "ec.r=2"}, nil, []string{"kill:1@60:steady", "kill:4@60:steady"}, 2},
		{"a node, with a spare", 3, []string{"elastic.spares=1"}, nil, []string{"node:2@100"}, -1},
		{"roles", 5, []string{"ec.k=1"}, []string{"ranks.readers=1", "ranks.trainers=2", "ranks.servers=2"},
			[]string{"kill:4@60:steady", "kill:0@120:steady", "kill:3@180:steady"}, 3},
		{"none", 3, []string{"elastic.standby=false"}, nil, []string{"kill:1@60:steady"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.turned < 1 {
				t.Skip("starts another job; make test does it without -short")
			}
			j := &killedJob{kind: "dlrm-adagrad", ranks: c.ranks, every: 4, steps: 240, evalEvery: 1000, faults: c.faults,
				sets: slices.Concat([]string{"ec.code=xor", "ec.k=2"}, c.sets, c.roles)}
			whole := filepath.Join(t.TempDir(), "whole")
			if r := run(t, ecrec(t), nil, train(golden(j.kind), whole, append(j.common(), c.roles...)...)...); r.code != 0 {
				t.Fatal(r.stderr)
			}
			x := j.begin(t)
			if r := x.ends(t, j); r.code != 0 || losses(r.stderr) != len(c.faults) {
				t.Fatalf("exit code %d after %d losses: %s\n%s", r.code, losses(r.stderr), r.stderr, x.logs())
			}
			equal(t, j.String(), readSummary(t, x.out), readSummary(t, whole))
			turned := 0
			paths, _ := filepath.Glob(filepath.Join(x.out, "process-*.log"))
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				turned += strings.Count(string(text), `"standby":true`)
			}
			if c.turned >= 0 && turned != c.turned {
				t.Errorf("%d standbys became workers, want %d: %s", turned, c.turned, x.logs())
			}
		})
	}
}
