package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKilledAtPoints kills a rank at every point of --chaos. A point that no job here reaches fails
// the test.
func TestKilledAtPoints(t *testing.T) {
	testKilledAtPoints(t, (*killedJob).check)
}

// TestKilledAtPointsKafka is the same with a topic of a real broker for each job, which a follower reads meanwhile. It is killed and
// started again once.
func TestKilledAtPointsKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	b := startBroker(t)
	testKilledAtPoints(t, func(j *killedJob, t *testing.T) {
		j.topic = "kafka://" + b.at + "/" + topicName(t)
		j.checkFollowed(t)
	})
}

// topicName is a name for the topic of a test.
func topicName(t *testing.T) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(t.Name()))
}

func testKilledAtPoints(t *testing.T, check func(*killedJob, *testing.T)) {
	r := drawing(t)
	type death struct {
		point string
		other bool // in a recovery, one dies that did not die before
	}
	var all []death
	points := chaosPoints(t)
	for i, point := range points {
		// A rank that joins has not trained a step yet, so at step 1 or later the point is of
		// another rank.
		if point != "join" && point != "states" {
			all = append(all, death{point, false})
		}
		if i >= slices.Index(points, "join") && !slices.Contains([]string{"restore", "restored", "round"}, point) {
			all = append(all, death{point, true})
		}
	}
	for _, d := range few(r, all, 2) {
		seed := r.Uint64()
		t.Run(fmt.Sprintf("%s,other=%v", d.point, d.other), func(t *testing.T) {
			check(jobAt(rand.New(rand.NewPCG(seed, 0)), t.TempDir(), d.point,
				slices.Index(points, d.point) >= slices.Index(points, "join"), d.other), t)
		})
	}
}

// jobAt returns a job in which a rank dies at a point: in a run without losses, or in a recovery
// after the loss of that rank or of another.
func jobAt(r *rand.Rand, dir, point string, recovery, other bool) *killedJob {
	ranks := 5
	if other {
		ranks = 6
	}
	j := drawJob(r, ranks)
	j.every, j.evalEvery, j.streams = 3, 5, j.streams || *soak
	first := r.IntN(ranks)
	second := first
	if other {
		second = (first + 1 + r.IntN(ranks-1)) % ranks
	}
	saves := []string{"checkpoint.dir=" + filepath.Join(dir, "checkpoints"), "checkpoint.every=5"}
	switch point {
	case "commit": // mode lrpp has "flush" in its place
		j.sets = pick(r, killedModes[:3])
	case "flush":
		j.sets = pick(r, killedModes[3:])
	case "checkpoint", "written", "saved":
		j.sets = append(saves, j.sets...)
	case "steady": // some steps after everything lost is rebuilt
		j.steps = 12 + 4*killSteps
	case "finish": // an evaluation finds that not all is back
		j.evalEvery, j.slow = 1, true
	case "restore", "restored", "round": // two are lost where one could be spared
		j.sets, j.fallsBack = append(saves, j.sets...), true
		for step := 8; step < 32; step += 4 { // time to write a checkpoint
			j.stops = append(j.stops, fmt.Sprintf("stop:%d@%d:100ms", first, step))
		}
		j.kill(first, 40, "status")
		j.kill((first+1)%ranks, 1, "join")
		j.kill((first+2)%ranks, 1, point)
		return j
	}
	if !recovery {
		j.kill(first, 4, point)
		return j
	}
	j.kill(first, 12, "status")
	j.kill(second, 1, point)
	return j
}
