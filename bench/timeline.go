package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var timelineBench = Bench{
	Name: "timeline",
	Doc:  "the parts of some steps over time, with copies in line and beside the computation",
	Detail: "Two jobs with a stream of commits, whose timelines are recorded (--trace): one exchanges all rows between the steps " +
		"(cache.delayed_sync = false), the " +
		"other moves the rows that the next step does not need while it computes. Some steps near the end of each are shown, on the " +
		"first rank: " +
		"every part of a step, rows that " +
		"move beside it, and writes to the topic.",
	Settings: []Setting{
		choice("model", "dim48-bare", []string{"dim48-bare", "dim16-bare", "dim48", "dim16"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "2", 2, 1024, "number of ranks"),
		number("steps", "24", 6, maxSteps, "steps of a job").orTiny("8"),
		number("shown", "1", 1, 100, "steps that are shown"),
		text("link", "10Gb/s,50us", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "simulated links between ranks"),
		threadsSetting,
		dirSetting,
	},
	Evidence: Simulated,
	measure:  runTimeline,
}

// timelineSpan is a span of a line, in ms.
type timelineSpan struct {
	track, name string
	begin, end  float64
}

func runTimeline(out io.Writer, o Options) (*Report, error) {
	link, err := transport.ParseEmulatedLink(o.text("link"))
	if err != nil {
		return nil, settingError("%v", err)
	}
	if o.number("shown") > o.number("steps")/2 {
		return nil, settingError("shown=%d: want at most half of steps=%d", o.number("shown"), o.number("steps"))
	}
	dir, err := o.tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ways := []string{"in line", "beside"}
	var info train.Info
	lists, fetches := make([][]timelineSpan, len(ways)), make([][]float64, len(ways))
	for i, way := range ways {
		o.mustRun()
		if lists[i], fetches[i], info, err = o.recordTimeline(way == "beside", link, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	r := o.newReport(info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%d ranks, batch %d, links %v, a commit each step: %d steps\n", o.number("ranks"), o.number("batch"), link,
		o.number("shown"))
	t := table(out)
	fmt.Fprintln(t, "copies\tline\tpart\tbegin, ms\tend, ms\t")
	for i, way := range ways {
		for n, s := range lists[i] {
			first := len(r.Figures)
			fmt.Fprintf(t, "%s\t%s\t%s\t%.3f\t%.3f\t\n", way, s.track, s.name, r.addFigure("begin", "ms", s.begin).Median, r.addFigure("end",
				"ms", s.end).Median)
			r.setCase(first, map[string]string{"copies": way, "line": s.track, "part": s.name, "span": strconv.Itoa(n)})
		}
		first := len(r.Figures)
		r.addFigure("steps", "ms", lengthOf(lists[i]))
		r.addFigure("fetch", "ms", fetches[i]...)
		r.addFigure("topic", "ms", busyOf(lists[i], "stream", ""))
		r.addFigure("wait", "ms", busyOf(lists[i], "step", "wait"))
		r.setCase(first, map[string]string{"copies": way})
	}
	return r, t.Flush()
}

// recordTimeline runs a job, and returns the spans of its first rank in the steps that are shown.
func (o Options) recordTimeline(delayed bool, link transport.EmulatedLink, dir string) (spans []timelineSpan, fetches []float64,
	info train.Info, err error) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, nil, info, err
	}
	path, ranks, e := filepath.Join(dir, "trace.json"), o.number("ranks"), env.Real()
	cfg, err := o.models(o.text("model"))[0].config(job{batch: o.number("batch"), ranks: ranks, threads: o.number("threads")},
		"cache.mode=planned",
		fmt.Sprint("cache.delayed_sync=", delayed), fmt.Sprint("train.iterations=", o.number("steps")), "train.keep=last", "ec.commit_every=1",
		"stream.to=file:"+filepath.Join(dir, "topic"))
	if err != nil {
		return nil, nil, info, err
	}
	t := &timedSteps{}
	if _, err := train.Run(e, cfg, train.Options{Observer: t, Stop: o.isStopped, Topic: openTopic, Session: rand.Uint64(), TraceTo: path,
		Progress: func(data.Progress) error { return nil },
		World: &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
			eps := transport.NewMem(e, ranks, 1)
			for i := range eps {
				eps[i] = transport.EmulateLink(e, eps[i], link)
			}
			return eps, nil
		}}}); err != nil {
		return nil, nil, info, err
	}
	spans, fetches, err = o.readTimeline(path)
	return spans, fetches, t.info, err
}

// readTimeline reads the spans of the first rank in the steps that are shown, and the ms of each fetch of the second half of the job. Times
// count from the begin of the first step that is shown.
func (o Options) readTimeline(path string) (spans []timelineSpan, fetches []float64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	var file struct {
		Events []struct {
			Name  string  `json:"name"`
			Phase string  `json:"ph"`
			Track int     `json:"tid"`
			TS    float64 `json:"ts"`
			Dur   float64 `json:"dur"`
			Args  struct {
				Name string `json:"name"`
				Step int    `json:"step"`
			} `json:"args"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, nil, err
	}
	lines, last := map[int]string{}, o.number("steps")-2
	from, to := -1.0, 0.0 // us
	for _, e := range file.Events {
		switch {
		case e.Name == "thread_name":
			if line, ok := strings.CutPrefix(e.Args.Name, "rank 0 "); ok {
				lines[e.Track] = line
			}
		case e.Phase == "X" && lines[e.Track] == "step" && e.Args.Step > last-o.number("shown") && e.Args.Step <= last:
			if from < 0 || e.TS < from {
				from = e.TS
			}
			to = max(to, e.TS+e.Dur)
		}
	}
	if from < 0 {
		return nil, nil, fmt.Errorf("bench: the timeline has no step %d", last)
	}
	for _, e := range file.Events {
		line := lines[e.Track]
		if line == "step" && e.Name == "fetch" && e.Args.Step > o.number("steps")/2 {
			fetches = append(fetches, e.Dur/1e3)
		}
		if e.Phase == "X" && line != "" && e.TS < to && e.TS+e.Dur > from {
			spans = append(spans, timelineSpan{line, e.Name, (max(e.TS, from) - from) / 1e3, (min(e.TS+e.Dur, to) - from) / 1e3})
		}
	}
	if len(fetches) == 0 {
		return nil, nil, errors.New("bench: the timeline has no fetch")
	}
	return spans, fetches, nil
}

// lengthOf is the end of the last span.
func lengthOf(spans []timelineSpan) (end float64) {
	for _, s := range spans {
		end = max(end, s.end)
	}
	return end
}

// busyOf is the time of the spans of a line, of one part or of all.
func busyOf(spans []timelineSpan, line, part string) (ms float64) {
	for _, s := range spans {
		if s.track == line && (part == "" || s.name == part) {
			ms += s.end - s.begin
		}
	}
	return ms
}
