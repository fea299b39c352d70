package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// saveTime is the measured time of a checkpoint, in seconds.
type saveTime struct {
	duration float64 // from the step that it holds to its publication
	lost     float64 // by training meanwhile
}

// leastLost is the share of its duration that a save counts as losing at least. Fewer steps are lost in noise, and a save that seems to be
// free would be taken all the time.
const leastLost = 0.05

// bestInterval returns the seconds between checkpoints that lose the least time, by Young and Daly: the cost of a checkpoint to
// training over the interval, and half an interval for each failure. The next one cannot begin before one has ended.
func (s saveTime) bestInterval(mtbf float64) float64 {
	return max(math.Sqrt(2*max(s.lost, leastLost*s.duration)*mtbf), s.duration)
}

// saveRuns is how many runs measure the time of a save.
const saveRuns = 3

// measureSaves returns the means of some runs with a checkpoint each.
func measureSaves(j failingJob, at, runs int) (saveTime, error) {
	var all []saveTime
	for range runs {
		s, err := measureSave(j, at)
		if err != nil {
			return s, err
		}
		all = append(all, s)
	}
	return meanSave(all), nil
}

// meanSave returns the means of some saves. Noise makes some of them seem to gain time: only the mean is cut at 0.
func meanSave(all []saveTime) (mean saveTime) {
	for _, s := range all {
		mean.duration += s.duration / float64(len(all))
		mean.lost += s.lost / float64(len(all))
	}
	mean.lost = max(0, mean.lost)
	return mean
}

// measureSave measures a checkpoint in the middle of a run.
func measureSave(j failingJob, at int) (s saveTime, err error) {
	var published time.Time
	j.afterEnd = func(out string) (err error) {
		published, err = publishedAt(out, int64(at))
		return err
	}
	r, err := j.run()
	if err != nil {
		return s, err
	}
	return r.costOfSave(int64(at), published.UnixMilli()), nil
}

// costOfSave compares the steps during a save with as many steps before it as after it. Steps become faster as a run goes on, which cancels out.
func (r *failingRun) costOfSave(at, published int64) (s saveTime) {
	var before, after []float64
	began, during, steps := int64(0), 0.0, 0
	for i, l := range r.lines[1:] {
		took := float64(l.UnixMS-r.lines[i].UnixMS) / 1e3
		switch {
		case l.Step <= at:
			began = l.UnixMS
			before = append(before, took)
		case r.lines[i].UnixMS < published:
			during, steps = during+took, steps+1
		default:
			after = append(after, took)
		}
	}
	s.duration = float64(published-began) / 1e3
	n := len(before) / 2
	if len(after) > 0 {
		n = min(n, len(after))
	}
	if plain := append(before[len(before)-n:], after[:min(n, len(after))]...); len(plain) > 0 {
		s.lost = during - float64(steps)*meanOf(plain)
	}
	return s
}

// publishedAt returns when the checkpoint of a step was there, by the events of a run.
func publishedAt(out string, step int64) (at time.Time, err error) {
	events, err := readEvents(out)
	if err != nil {
		return at, err
	}
	for _, e := range events {
		if e.Event == "checkpoint" && e.Step == step {
			return e.Time, nil
		}
	}
	return at, fmt.Errorf("bench: the run has no checkpoint of step %d", step)
}

// jobEvent is a line of events.jsonl.
type jobEvent struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Step  int64     `json:"step"`
	Error string    `json:"error"`
}

// readEvents reads the events of a run. It leaves out lines that are not complete.
func readEvents(out string) (events []jobEvent, err error) {
	f, err := os.Open(filepath.Join(out, "events.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e jobEvent
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			events = append(events, e)
		}
	}
	return events, lines.Err()
}
