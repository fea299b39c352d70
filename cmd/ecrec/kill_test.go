package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var kills = flag.Int("kills", 12, "how many ranks TestKilledRanks kills")

const (
	killGap   = 40 // steps between two losses of a run, in which all becomes whole again
	killSteps = 30 // that the second of a pair, and a run, go on for
)

// TestKilledRanks kills ranks of real processes by SIGKILL, at random steps and
// points: their runs give what a run gives in which none was.
func TestKilledRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	points := strings.Fields(run(t, ecrec(t), nil, "train", golden("dlrm-sgd"), "--chaos", "list").stdout)
	for done := 0; done < *kills && !t.Failed(); {
		j := drawKills(r, points)
		done += j.kills
		j.check(t)
	}
}

// killedJob is a job whose ranks are killed.
type killedJob struct {
	kind, np string
	sets     []string
	faults   []string
	kills    int
	every    int
}

func drawKills(r *rand.Rand, points []string) killedJob {
	kinds := []string{"dlrm-sgd", "dlrm-adagrad", "dlrm-adam", "dlrm-momentum", "dlrm-rowwise-adagrad"}
	j := killedJob{kind: kinds[r.IntN(len(kinds))], np: "5", every: 1 + r.IntN(12)}
	ranks, code := 5, []string{"ec.code=xor", "ec.k=4"}
	if r.IntN(3) == 0 {
		ranks, j.np, code = 6, "6", []string{"ec.code=rs", "ec.k=4", "ec.r=2"}
	}
	modes := [][]string{{"cache.mode=none"}, {"cache.mode=planned"}, {"cache.mode=planned", "cache.delayed_sync=false"},
		{"cache.mode=lrpp", "oracle.lookahead=3"}, {"cache.mode=lrpp", "oracle.lookahead=auto"}}
	// Points that every run comes to: in each step or epoch, at its end, and in
	// recoveries; there, with one rank to spare, only the one dies again that died before.
	any := func(list string) string {
		names := strings.Fields(list)
		name := names[r.IntN(len(names))]
		if !slices.Contains(points, name) {
			panic("no point " + name)
		}
		return name
	}
	const (
		always   = "step fetch forward backward word push reduce update done decide snapshot deltas seal send counts slots staged prepared"
		atTheEnd = "evaluate settle digest count"
		recovery = "agree rollback dense survey"
	)
	step := 1 + r.IntN(killGap)
	for range 1 + r.IntN(4) {
		rank, other := r.IntN(ranks), r.IntN(ranks)
		j.kill(rank, step, any(always))
		switch {
		case r.IntN(3) > 0:
		case ranks == 6:
			j.kill(other, step, any(always))
		default:
			j.kill(rank, step, any(recovery))
		}
		step += killGap + r.IntN(killGap)
	}
	switch r.IntN(4) {
	case 0:
		j.kill(r.IntN(ranks), step, any(atTheEnd))
	case 1:
		j.faults = append(j.faults, "--chaos", fmt.Sprintf("node:%d@%d", 1+r.IntN(ranks-1), step))
		j.kills++
	}
	j.sets = append(code, append(modes[r.IntN(len(modes))], "job.ranks="+j.np, fmt.Sprintf("ec.commit_every=%d", j.every),
		fmt.Sprintf("train.iterations=%d", step+killSteps), "train.eval_every=50")...)
	return j
}

func (j *killedJob) kill(rank, step int, point string) {
	j.faults = append(j.faults, "--chaos", fmt.Sprintf("kill:%d@%d:%s", rank, step, point))
	j.kills++
}

func (j *killedJob) check(t *testing.T) {
	t.Helper()
	what := fmt.Sprintf("%s %s %s", j.kind, strings.Join(j.sets, " "), strings.Join(j.faults, " "))
	whole, out := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "out")
	if r := run(t, ecrec(t), nil, train(golden(j.kind), whole, j.sets...)...); r.code != 0 {
		t.Fatalf("%s: %s", what, r.stderr)
	}
	x := &runningJob{mark: "ECREC_TEST_MARK=" + out}
	args := append(append(train(golden(j.kind), out, j.sets...), "--np", j.np), j.faults...)
	if r := run(t, ecrec(t), []string{x.mark}, args...); r.code != 0 {
		log, _ := os.ReadFile(filepath.Join(out, "process-0.log"))
		t.Fatalf("%s: exit code %d\n%s\n%s", what, r.code, r.stderr, log)
	}
	x.nothingLeft(t)
	got := readSummary(t, out)
	equal(t, what, got, readSummary(t, whole))
	for i, v := range got.Recoveries {
		if v.StepsRedone > 2*j.every {
			t.Errorf("%s: %d steps were redone", what, v.StepsRedone)
		}
		last := i == len(got.Recoveries)-1 // others may have been broken off by the next loss
		if len(v.Ranks) == 0 || last && (v.ResumeMS <= 0 || v.WholeMS <= 0) {
			t.Errorf("%s: a recovery of ranks %v that took %g and %g ms", what, v.Ranks, v.ResumeMS, v.WholeMS)
		}
	}
	t.Logf("%d faults, %d recoveries: %s %s", j.kills, len(got.Recoveries), j.kind, strconv.Quote(strings.Join(j.faults, " ")))
}
