package exporter

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/ecrec/ecrec/internal/nvml"
	"github.com/ecrec/ecrec/train"
)

// Options describe the process and its sources of figures.
type Options struct {
	Run     string // the job's name
	Version string // of the program
	Model   string // model.kind

	Process int    // this process's number in the job
	Node    string // name of its host

	Spares   int          // at the start of the job
	LogEvery int64        // steps between the lines of metrics.jsonl
	Events   string       // the path of events.jsonl
	Meter    *train.Meter // of this process
}

// Exporter exports the figures of one process. The methods of a nil Exporter do nothing.
type Exporter struct {
	o       Options
	job     *jobFigures
	jobs    *prometheus.Registry // of the job
	own     *prometheus.Registry // of this process
	runtime *prometheus.Registry // of its Go runtime
	leads   atomic.Bool          // this process hosts rank 0
	gpu     atomic.Pointer[nvml.Watch]

	scraped atomic.Int64 // when the last scrape ended, in nanoseconds since 1970; 0: none has
	ends    atomic.Int64 // calls of Ended
	read    atomic.Int64 // the calls whose figures a scrape has read

	mu     sync.Mutex
	server *http.Server  // nil: not listening
	serves string        // its address
	done   bool          // Close was called
	closed chan struct{} // closed by Close
	atEnd  func()        // writes the textfile
	loops  sync.WaitGroup
}

// New returns an Exporter, which the caller must close.
func New(o Options) *Exporter {
	e := &Exporter{o: o, jobs: prometheus.NewRegistry(), own: prometheus.NewRegistry(), runtime: prometheus.NewRegistry(),
		closed: make(chan struct{})}
	labels := prometheus.Labels{"run": o.Run}
	e.job = newJobFigures(o)
	prometheus.WrapRegistererWith(labels, e.jobs).MustRegister(e.job)
	labels = prometheus.Labels{"run": o.Run, "process": strconv.Itoa(o.Process)}
	prometheus.WrapRegistererWith(labels, e.own).MustRegister(processFigures{e})
	e.runtime.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return e
}

// gatherOwn gathers all figures that begin with ecrec_.
func (e *Exporter) gatherOwn() ([]*dto.MetricFamily, error) {
	all := prometheus.Gatherers{e.own}
	if e.leads.Load() {
		all = append(all, e.jobs)
	}
	return all.Gather()
}

// Started exports the figures of a job that starts, or that continues on this process.
func (e *Exporter) Started(i train.Info) {
	if e == nil {
		return
	}
	e.job.setStarted(i, time.Now())
	for _, x := range i.Recoveries {
		e.job.addRecovery(x)
	}
	e.leads.Store(true)
}

// Watch exports a GPU's figures; nil: none.
func (e *Exporter) Watch(gpu *nvml.Watch) {
	if e != nil {
		e.gpu.Store(gpu)
	}
}

// Moved stops the figures of the job: another process hosts rank 0 now.
func (e *Exporter) Moved() {
	if e != nil {
		e.leads.Store(false)
	}
}

// Step adds the figures of a step.
func (e *Exporter) Step(i train.StepInfo) {
	if e == nil {
		return
	}
	e.leads.Store(true)
	e.job.addStep(i)
}

// Committed adds a commit.
func (e *Exporter) Committed(step int64) {
	if e != nil {
		e.job.addCommit(step, time.Now())
	}
}

// Recovered adds a recovery.
func (e *Exporter) Recovered(x train.Recovery) {
	if e != nil {
		e.job.addRecovery(x)
	}
}

// Ended exports the end of the run: a failure if err is not nil, else at its last step, unless a signal has stopped it.
func (e *Exporter) Ended(err error, stopped bool) {
	if e != nil {
		e.job.setEnded(err, stopped)
		e.ends.Add(1)
	}
}
