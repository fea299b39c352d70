package bench

import (
	"slices"
	"testing"
	"time"
)

// Steps are counted in the windows in which they end, over blocks end to end; a pause has none.
func TestStepsOfWindows(t *testing.T) {
	s := time.Second
	blocks := []guardBlock{{steps: 2, took: 5 * s, ends: []time.Duration{s, 2 * s}}, {steps: 1, took: 2 * s, ends: []time.Duration{s / 2}}}
	if counts := stepsOfWindows(blocks, 2*s); !slices.Equal(counts, []int{1, 1, 1}) {
		t.Errorf("%v", counts)
	}
}

// The samples of steps that are lost are not done until they are repeated; the throughput counts both.
func TestWindowsOfLostSteps(t *testing.T) {
	lines := []stepLine{{1, 0}, {2, 1000}, {3, 1500}, {4, 2500}, {3, 3500}, {4, 4500}, {5, 5000}}
	rates, done := windowsOf(lines, 1, 10, 2*time.Second) // from step 2, at 1 s: windows to 3 s and to 5 s
	if !slices.Equal(rates, []float64{10, 15}) || !slices.Equal(done, []float64{20, 30}) {
		t.Errorf("%v, %v", rates, done)
	}
	if rates, done := windowsOf(lines, 9, 10, time.Second); len(rates) > 0 || len(done) > 0 {
		t.Errorf("a run without other steps: %v, %v", rates, done)
	}
}

// The rows of a size, and its times, are divided by one scale.
func TestScaleOfSizes(t *testing.T) {
	b := &protectionRun{scale: 200}
	if b.interval(30) != 9*time.Second {
		t.Errorf("30 minutes / 200: %v", b.interval(30))
	}
	for _, z := range ecrecSizes {
		s, err := z.shape(200, false)
		cfg, err2 := s.config(job{batch: 64, ranks: 5})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		rows := int64(0)
		for _, n := range cfg.Model.TableRows() {
			rows += n
		}
		if want := ecrecRows * z.rows / 200; rows < want || rows > want+30 {
			t.Errorf("%s: %d rows, want %d", z.name, rows, want)
		}
	}
}

// Times are from the loss, not from the last step before it. Steps that are trained again are no progress: net is that of new ones. A pause
// for a checkpoint is no part of the normal speed.
func TestOutcomeOfACheckpoint(t *testing.T) {
	before, after := &jobRun{batch: 10}, &jobRun{batch: 10}
	for i := range 6 { // steps 1 to 6, one each 100 ms
		before.steps = append(before.steps, stepLine{int64(i + 1), int64(100 * (i + 1))})
	}
	for i := range 4 { // from step 5 on, after a second
		after.steps = append(after.steps, stepLine{int64(i + 5), int64(1600 + 100*i)})
	}
	x, err := outcomeOfCheckpoint(nil, before, after, faultTime{lost: 900, calm: 1})
	if err != nil || x.resume != 700 || x.regain != 800 || x.recovered != 800 || x.redone != 2 || x.net != 0 || x.kept != 100 {
		t.Errorf("%+v, %v", x, err)
	}
	for i := range 3 { // a pause of 2 s after step 3
		before.steps[3+i].UnixMS += 2000
	}
	for i := range after.steps {
		after.steps[i].UnixMS += 2000
	}
	if x, err := outcomeOfCheckpoint(nil, before, after, faultTime{2900, 1, 3}); err != nil || x.resume != 700 || x.kept != 100 {
		t.Errorf("after a pause: %+v, %v", x, err)
	}
	if _, err := outcomeOfCheckpoint(nil, before, before, faultTime{lost: 900, calm: 1}); err == nil {
		t.Error("a job that was not started again has an outcome")
	}
}

// The losses of one job are one value, their median. A figure that no loss has is left out.
func TestLossesOfAJobAreOneValue(t *testing.T) {
	f := rebuildTimes{rate: []float64{7}}
	f.addMedians(rebuildTimes{rate: []float64{3, 1, 2}, whole: []float64{5, 6}})
	if !slices.Equal(f.rate, []float64{7, 2}) || !slices.Equal(f.whole, []float64{5.5}) || f.kept != nil {
		t.Errorf("%+v", f)
	}
}
