package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/train"
)

// turnsBench is a benchmark of 5 turns of one job, which calls before with the number of the turn.
func turnsBench(before func(turn int)) Bench {
	return Bench{Name: "turns", Doc: "d", measure: func(out io.Writer, o Options) (*Report, error) {
		r, turn := o.newReport("none"), 0
		r.writeHeader(out)
		_, results, err := runTurns(o, 5, func(run func(string, func() (float64, error))) {
			run("job", func() (float64, error) {
				turn++
				before(turn)
				return float64(turn), nil
			})
		})
		if err != nil {
			return nil, err
		}
		var values []float64
		for _, turn := range results {
			values = append(values, turn[0])
		}
		r.addFigure("turn", "", values...)
		return r, nil
	}}
}

// A benchmark that is stopped in a turn reports the turns before it.
func TestStopKeepsCompleteTurns(t *testing.T) {
	stopped := false
	var out bytes.Buffer
	o := Options{Stop: func() bool { return stopped }, Progress: &Progress{}}
	r, err := turnsBench(func(turn int) { stopped = turn == 4 }).Run(&out, o)
	if !errors.Is(err, ErrStopped) || r == nil || r.Figures[0].N != 3 || r.Incomplete != "3 of 5 turns" ||
		o.Progress.String() != "after 3 of 5 turns" {
		t.Errorf("%+v, %v, %q", r, err, o.Progress)
	}
	if !strings.Contains(out.String(), "load average") {
		t.Errorf("%s", &out)
	}
}

func TestStopBeforeATurnIsComplete(t *testing.T) {
	stopped := false
	r, err := turnsBench(func(int) { stopped = true }).Run(io.Discard, Options{Stop: func() bool { return stopped }})
	if !errors.Is(err, ErrStopped) || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	defer func() {
		if recover() != "another panic" {
			t.Error("a panic is taken for a stop")
		}
	}()
	_, _ = turnsBench(func(int) { panic("another panic") }).Run(io.Discard, Options{})
}

// An error of a job that a signal also reached is no failure; one without a stop is.
func TestErrorsOfStoppedBenchmarks(t *testing.T) {
	failed := errors.New("a child was ended by a signal")
	for _, stop := range []bool{false, true} {
		b := Bench{Name: "b", measure: func(_ io.Writer, o Options) (*Report, error) {
			o.newReport("none").addFigure("x", "", 1)
			o.setDone(1, 2, "cases")
			return nil, failed
		}}
		r, err := b.Run(io.Discard, Options{Stop: func() bool { return stop }})
		if errors.Is(err, ErrStopped) != stop || errors.Is(err, failed) == stop || (r != nil) != stop {
			t.Errorf("stop %v: %+v, %v", stop, r, err)
		}
		if stop && r.Incomplete != "1 of 2 cases" {
			t.Errorf("%+v", r)
		}
	}
}

// Each benchmark that measures times ends at once if a stop is requested.
func TestBenchmarksStop(t *testing.T) {
	for _, b := range All() {
		if b.Evidence == Counted {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			o := Options{Tiny: true, Program: program, Stop: func() bool { return true }}
			if b.Processes > 0 {
				o.World = &World{Size: 1, OneHost: true, Stop: o.Stop}
				o.Args = []string{"transport=mem"}
			}
			if r, err := b.Run(io.Discard, o); !errors.Is(err, ErrStopped) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestProgressRemovesFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if err := os.MkdirAll(filepath.Join(dir, "y"), 0o755); err != nil {
		t.Fatal(err)
	}
	var none *Progress
	none.setDoneForTest()
	p := &Progress{}
	p.addFolder(dir)
	if err := p.RemoveFolders(); err != nil || p.String() != "" || none.String() != "" {
		t.Errorf("%v, %q", err, p)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
}

// setDoneForTest calls the methods that benchmarks call without a Progress.
func (p *Progress) setDoneForTest() { p.setText("x"); p.addFolder("/none"); p.setCut() }

// The shares are those of the time of all cores: idle, stolen, of this benchmark, and of others.
func TestSharesOfTheMachine(t *testing.T) {
	at := func(s, busy, idle, steal, own int) loadMoment {
		d := func(n int) time.Duration { return time.Duration(n) * time.Second }
		return loadMoment{when: time.Unix(int64(s), 0), times: machine.CPUTimes{Busy: d(busy), Idle: d(idle), Steal: d(steal)}, own: d(own),
			known: true}
	}
	l := &Load{start: at(100, 10, 20, 1, 5)}
	l.setShares(at(150, 70, 58, 3, 55)) // 50 s of two cores: 60 busy, 38 idle, 2 stolen; 50 of them ours
	if l.Seconds != 50 || *l.Own != 0.5 || *l.Others != 0.1 || *l.Steal != 0.02 {
		t.Errorf("%+v: %v, %v, %v", l, *l.Own, *l.Others, *l.Steal)
	}
	var out bytes.Buffer
	l.writeLoad(&out)
	if want := "this benchmark 50.0 %, others 10.0 %, stolen by the host 2.0 %\nwarning: "; !strings.Contains(out.String(), want) {
		t.Errorf("%q", &out)
	}
	writing := &Load{start: at(100, 10, 20, 1, 5)}
	writing.start.knownKernel = true
	end := at(150, 70, 58, 3, 55)
	end.kernel, end.knownKernel = 8*time.Second, true // files are written back
	writing.setShares(end)
	out.Reset()
	writing.writeLoad(&out)
	if share, ok := writing.Foreign(); !ok || math.Abs(share-0.02) > 1e-9 || *writing.Kernel != 0.08 || writing.IsBusy() || !l.IsBusy() ||
		!strings.Contains(out.String(), "others 10.0 %, of which threads of the kernel 8.0 %, stolen") {
		t.Errorf("%v, %v, %+v, %q", share, ok, writing, &out)
	}
	calm := &Load{start: at(0, 0, 0, 0, 0)}
	calm.setShares(at(10, 12, 8, 0, 12)) // the counters of a process are finer than those of the machine
	out.Reset()
	calm.writeLoad(&out)
	if *calm.Others != 0 || strings.Contains(out.String(), "warning") || !strings.Contains(out.String(), "load average unknown at the end") {
		t.Errorf("%+v, %q", calm, &out)
	}
	for _, now := range []loadMoment{{}, at(0, 0, 0, 0, 0)} {
		unknown := &Load{start: at(0, 0, 0, 0, 0)}
		unknown.setShares(now)
		out.Reset()
		unknown.writeLoad(&out)
		if unknown.Others != nil || !strings.HasSuffix(out.String(), "of all cores: unknown\n") {
			t.Errorf("%+v, %q", unknown, &out)
		}
	}
	elsewhere := startLoad(&World{Size: 2})
	if elsewhere.endLoad(&World{Size: 2}); elsewhere.Others != nil {
		t.Errorf("the processes of other machines are known: %+v", elsewhere)
	}
}

// A report has what a reader needs to repeat it, and the kind of each figure.
func TestRecord(t *testing.T) {
	b := Bench{Name: "b", Settings: []Setting{number("n", "3", 1, 9, "a number"), dirSetting},
		measure: func(out io.Writer, o Options) (*Report, error) {
			r := o.newReport("none")
			r.writeHeader(out)
			r.addRatio("six", []float64{2, 4, 6, 8, 10, 12}, []float64{1, 2, 3, 4, 5, 6})
			r.addRatio("one", []float64{2}, []float64{1})
			r.addAs(Counted, "rows", "rows", 3)
			r.addQuantile("p95", "ms", 0.95, ratios(1))
			return r, nil
		}}
	var out bytes.Buffer
	r, err := b.Run(&out, Options{Args: []string{"n=4", "dir=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Settings["n"] != "4" || r.Machine.Disk == nil || r.Machine.Memory <= 0 || r.Build.Version == "" || r.Load == nil || r.Machine.Kernel == "" {
		t.Errorf("%+v", r)
	}
	for i, want := range []string{"measured ratio 2 of 6, true", "measured ratio 2 of 1, false", "counted rows 3 of 1, false", "measured ms 1.0175 of 15, false"} {
		f := r.Figures[i]
		if got := fmt.Sprintf("%s %s %g of %d, %v", f.Evidence, f.Unit, f.Median, f.N, f.Interval != nil); got != want {
			t.Errorf("%s: %s, want %s", f.Name, got, want)
		}
	}
	for _, text := range []string{"b, ", " cores, ", "ecrec " + r.Build.Version, "load average", "files in "} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q:\n%s", text, &out)
		}
	}
}

// A measurement that is stopped between its turns has those before, unless there is nothing but the first.
func TestStopKeepsTurns(t *testing.T) {
	cfg, err := tinyShape.config(job{batch: 64, ranks: 2, threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []int{0, 1, 2, 5} {
		p := &Progress{}
		o := Options{Progress: p, Stop: func() bool { return p.String() == fmt.Sprintf("after %d of 9 turns", last) }}
		samples, _, err := measure.Run(env.Real(), cfg, measure.Options{Warmup: 1, Steps: 1, Repeats: 9, EndEarly: o.endsTurns, Options: train.Options{
			Observer: silent{}, Stop: neverStop, Progress: func(data.Progress) error { return nil }}})
		switch {
		case !p.cut:
			t.Errorf("stopped after %d turns: the report would not say so", last)
		case last < 2 && !errors.Is(err, measure.ErrEnded):
			t.Errorf("stopped after %d turns: %v", last, err)
		case last >= 2 && (err != nil || len(samples[0]) != last):
			t.Errorf("stopped after %d turns: %v, %d samples", last, err, len(samples[0]))
		}
	}
}
