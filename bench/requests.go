package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

var requestsBench = Bench{
	Name: "requests",
	Doc:  "rows that are requested of a server, and updated, in each millisecond of some steps",
	Detail: "One rank holds all rows, and others train, which wait in place of most of the forward and backward pass; links are simulated. " +
		"The jobs of the cache " +
		"modes take turns. The parts of messages with rows, and with their gradients, are recorded when they leave a port, over some steps " +
		"near the end of " +
		"a job, and counted by millisecond.",
	Settings: []Setting{
		choice("model", "dim64-bare", []string{"dim64-bare", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "1024", 1, maxSamples, "samples of a step of each trainer").orTiny("32"),
		number("trainers", "2", 1, 64, "trainers"),
		number("steps", "40", 6, maxSteps, "steps of a job").orTiny("12"),
		number("shown", "2", 1, 1000, "steps that are recorded, near the end of the job"),
		text("modes", "none,planned", "as cache.mode, separated by commas", "cache modes to compare"),
		text("link", "30Gb/s,50us", "BANDWIDTH,LATENCY such as 30Gb/s,50us", "simulated links between ranks"),
		text("compute", "20ms", "a duration up to 1m, such as 30ms", "time that a trainer waits in place of the forward and backward "+
			"pass").orTiny("1ms"),
	},
	Evidence: Simulated,
	measure:  runRequests,
}

// Kinds of requests.
const (
	asked = iota
	updated
	requestKinds
)

var requestNames = [requestKinds]string{"requested", "updated"}

// request is a part of a message with rows that a server sends, or with their gradients.
type request struct {
	when  time.Time
	kind  int
	bytes int
}

// requestList is the requests of all ranks.
type requestList struct {
	mutex sync.Mutex
	list  []request
}

func (l *requestList) addRequest(kind, bytes int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.list = append(l.list, request{time.Now(), kind, bytes})
}

// observed is the inner endpoint of an emulated link: a message leaves the port in parts, each at its time.
type observed struct {
	transport.Endpoint
	list     *requestList
	kind     int
	rowBytes int
}

// Send records the part, unless it is the length of a message.
func (o *observed) Send(to int, tag transport.Tag, p []byte) transport.Request {
	if train.CarriesRows(tag) && len(p) >= o.rowBytes {
		o.list.addRequest(o.kind, len(p))
	}
	return o.Endpoint.Send(to, tag, p)
}

// requestsSeries is the rows of each millisecond of the steps that are shown.
type requestsSeries struct {
	perMS [requestKinds][]float64
	step  float64 // ms
	width int64   // ms of each element of perMS: 1, or more if there are many
}

// mostBins is about the most elements of a series.
const mostBins = 400

func runRequests(out io.Writer, o Options) (*Report, error) {
	link, err := transport.ParseEmulatedLink(o.text("link"))
	if err != nil {
		return nil, settingError("%v", err)
	}
	compute, err := time.ParseDuration(o.text("compute"))
	if err != nil || compute < 0 || compute > time.Minute {
		return nil, settingError("compute=%s: want a duration up to 1m, such as 30ms", o.text("compute"))
	}
	if o.number("shown") > o.number("steps")/2 {
		return nil, settingError("shown=%d: want at most half of steps=%d", o.number("shown"), o.number("steps"))
	}
	modes := strings.Split(o.text("modes"), ",")
	var info train.Info
	_, found, err := runTurns(o, o.repeats(), func(run func(string, func() (requestsSeries, error))) {
		for _, mode := range modes {
			run(mode, func() (x requestsSeries, err error) {
				x, info, err = o.recordRequests(mode, link, compute)
				return x, err
			})
		}
	})
	if err != nil {
		return nil, err
	}
	r := o.newReport(info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%d trainers of %d samples, links %v, a wait of %v: %d rows of %d bytes\n", o.number("trainers"), o.number("batch"),
		link, compute,
		info.Rows, info.BytesPerRow)
	t := table(out)
	fmt.Fprintln(t, "mode\trows\tms per step\trows per step\tmost rows in a ms\tthat of the mean\tms with rows, %\t")
	for i, mode := range modes {
		for kind, name := range requestNames {
			r.addRequests(t, mode, name, kind, i, found)
		}
	}
	return r, t.Flush()
}

// addRequests reports one kind of requests in one mode. The milliseconds are those of the last turn.
func (r *Report) addRequests(t io.Writer, mode, name string, kind, job int, found [][]requestsSeries) {
	var step, rows, most, burst, busy []float64
	for _, turn := range found {
		x := turn[job]
		sum, peak, with := 0.0, 0.0, 0.0
		for _, n := range x.perMS[kind] {
			sum, peak = sum+n, max(peak, n)
			if n > 0 {
				with++
			}
		}
		n := float64(len(x.perMS[kind]))
		step, rows, most = append(step, x.step), append(rows, sum/n*x.step), append(most, peak)
		burst, busy = append(burst, peak*n/max(sum, 1)), append(busy, 100*with/n)
	}
	first := len(r.Figures)
	fmt.Fprintf(t, "%s\t%s\t%.2f\t%.0f\t%.0f\t%.1f\t%.0f\t\n", mode, name, r.addFigure("step", "ms", step...).Median,
		r.addFigure("rows", "rows/step", rows...).Median, r.addFigure("most", "rows/ms", most...).Median,
		r.addFigure("most of the mean", ratioUnit, burst...).Median, r.addFigure("time with rows", "%", busy...).Median)
	r.setCase(first, map[string]string{"mode": mode, "rows": name})
	last := found[len(found)-1][job]
	for ms, n := range last.perMS[kind] {
		first := len(r.Figures)
		r.addFigure("rows in a ms", "rows/ms", n)
		r.setCase(first, map[string]string{"mode": mode, "rows": name, "ms": strconv.Itoa(ms * int(last.width))})
	}
}

// stepClock records when steps end.
type stepClock struct {
	silent
	info train.Info
	ends []time.Time
}

func (c *stepClock) Started(i train.Info) error { c.info = i; return nil }
func (c *stepClock) Step(train.StepInfo)        { c.ends = append(c.ends, time.Now()) }

// recordRequests runs a job.
func (o Options) recordRequests(mode string, link transport.EmulatedLink, compute time.Duration) (x requestsSeries, info train.Info,
	err error) {
	e, trainers, shown := env.Real(), o.number("trainers"), o.number("shown")
	cfg, err := o.models(o.text("model"))[0].config(job{batch: o.number("batch") * trainers, ranks: trainers + 1, threads: 1},
		fmt.Sprint("ranks.trainers=", trainers), "ranks.servers=1", "cache.mode="+mode, fmt.Sprint("train.iterations=", o.number("steps")),
		"train.keep=last")
	if err != nil {
		return x, info, err
	}
	clock, list, rowBytes := &stepClock{}, &requestList{}, 4*cfg.Model.EmbeddingDim
	_, err = train.Run(e, cfg, train.Options{Observer: clock, Stop: o.isStopped, Progress: func(data.Progress) error { return nil },
		WrapStream: func(rank int, s kernels.Stream) kernels.Stream { return waitIn(e, s, rank < trainers, compute) },
		World: &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) {
			eps := transport.NewMem(e, trainers+1, 1)
			for i := range eps {
				kind := updated
				if i == trainers {
					kind = asked
				}
				eps[i] = transport.EmulateLink(e, &observed{eps[i], list, kind, rowBytes}, link)
			}
			return eps, nil
		}}})
	if err != nil {
		return x, info, err
	}
	last := len(clock.ends) - 2
	from, to := clock.ends[last-shown], clock.ends[last]
	x.step = float64(to.Sub(from).Microseconds()) / 1e3 / float64(shown)
	x.width = 1 + to.Sub(from).Milliseconds()/mostBins // ms
	bins := 1 + int(to.Sub(from).Milliseconds()/x.width)
	for kind := range requestKinds {
		x.perMS[kind] = make([]float64, bins)
	}
	for _, q := range list.list {
		if !q.when.Before(from) && q.when.Before(to) {
			x.perMS[q.kind][q.when.Sub(from).Milliseconds()/x.width] += float64(q.bytes) / float64(rowBytes) / float64(x.width)
		}
	}
	return x, clock.info, nil
}
