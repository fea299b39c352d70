package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/serve/servepb"
)

// The methods of requests, as a label.
const (
	methodPredict = "predict"
	methodRows    = "rows"
	methodModel   = "model"
)

// metrics are the figures of a Server. All names begin with ecrec_.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // by method and code
	rows     *prometheus.CounterVec   // by method
	seconds  *prometheus.HistogramVec // by method
	cuts     prometheus.Counter
	merged   prometheus.Counter
	applied  prometheus.Counter

	predict methodMetrics
	lookup  methodMetrics
	model   methodMetrics
}

// methodMetrics are the figures of one method.
type methodMetrics struct {
	answered prometheus.Counter // requests that had no error
	rows     prometheus.Counter
	seconds  prometheus.Observer
}

// gauges are the figures of the marker that is served.
var (
	gaugeStep      = prometheus.NewDesc("ecrec_follow_step", "Step of the model that is served.", nil, nil)
	gaugeWritten   = prometheus.NewDesc("ecrec_follow_marker_timestamp_seconds", "When the marker that is served was written.", nil, nil)
	gaugeLag       = prometheus.NewDesc("ecrec_follow_lag_seconds", "From the writing of the marker that is served to its serving.", nil, nil)
	gaugeStaleness = prometheus.NewDesc("ecrec_follow_staleness_seconds", "Since the marker that is served was written.", nil, nil)
	gaugeReady     = prometheus.NewDesc("ecrec_serve_ready", "1: /readyz answers 200.", nil, nil)
	gaugeFailed    = prometheus.NewDesc("ecrec_follow_failed",
		"1: the follower ended with an error, and the model stays at its marker.", nil, nil)
)

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m.requests = counter("ecrec_serve_requests_total", "Requests answered, by method and HTTP status.", "method", "code")
	m.rows = counter("ecrec_serve_rows_total", "Rows scored, or looked up.", "method")
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ecrec_serve_request_seconds",
		Help:    "Time in the server, once the request has been read and has its turn.",
		Buckets: []float64{5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5, 2.5}}, []string{"method"})
	cuts := counter("ecrec_follow_cuts_total", "Cuts of the stream that were applied.")
	merged := counter("ecrec_follow_merged_total", "Markers that were skipped, since not all ranks have them.")
	applied := counter("ecrec_follow_rows_total", "Rows of the cuts that were applied.")
	m.cuts, m.merged, m.applied = cuts.WithLabelValues(), merged.WithLabelValues(), applied.WithLabelValues()
	m.registry.MustRegister(m.requests, m.rows, m.seconds, cuts, merged, applied, gauges{s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.predict, m.lookup, m.model = m.ofMethod(methodPredict), m.ofMethod(methodRows), m.ofMethod(methodModel)
	return m
}

func (m *metrics) ofMethod(name string) methodMetrics {
	return methodMetrics{answered: m.requests.WithLabelValues(name, "200"), rows: m.rows.WithLabelValues(name),
		seconds: m.seconds.WithLabelValues(name)}
}

// note counts a request.
func (m *metrics) note(x *methodMetrics, name string, rows int, took time.Duration, err error) {
	x.seconds.Observe(took.Seconds())
	if err != nil {
		m.requests.WithLabelValues(name, strconv.Itoa(statusOf(err))).Inc()
		return
	}
	x.answered.Inc()
	x.rows.Add(float64(rows))
}

// noteForm counts a request that is no message, which connect refuses before a method is called. It returns the error.
func (m *metrics) noteForm(message any, err error) error {
	if err == nil {
		return nil
	}
	const refused = http.StatusBadRequest
	switch message.(type) {
	case *servepb.PredictRequest:
		m.requests.WithLabelValues(methodPredict, strconv.Itoa(refused)).Inc()
	case *servepb.RowsRequest:
		m.requests.WithLabelValues(methodRows, strconv.Itoa(refused)).Inc()
	case *servepb.ModelRequest:
		m.requests.WithLabelValues(methodModel, strconv.Itoa(refused)).Inc()
	}
	return err
}

// Applied counts a cut that the follower applied.
func (s *Server) Applied(p follow.Progress) {
	if p.Path != "" || p.Base != "" {
		return // a checkpoint, or a base
	}
	s.metrics.cuts.Inc()
	s.metrics.merged.Add(float64(p.Merged))
	s.metrics.applied.Add(float64(p.Rows))
}

// gauges collects the figures of the marker that is served.
type gauges struct{ s *Server }

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{gaugeStep, gaugeWritten, gaugeLag, gaugeStaleness, gaugeReady, gaugeFailed} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, x float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, x) }
	flag := func(d *prometheus.Desc, set bool) { send(d, float64(btoi(set))) }
	flag(gaugeReady, g.s.Ready() == nil)
	flag(gaugeFailed, g.s.failure.Load() != nil)
	v := g.s.model.current.Load()
	if v == nil {
		return
	}
	send(gaugeStep, float64(v.Step))
	if v.written == 0 {
		return
	}
	send(gaugeWritten, float64(v.written)/1e3)
	send(gaugeLag, v.lag().Seconds())
	send(gaugeStaleness, v.staleness(time.Now()).Seconds())
}

// lag is the time from the writing of a marker to its serving. The clocks of two machines may differ: it is at least 0.
func (m *Marker) lag() time.Duration {
	if m.written == 0 {
		return 0
	}
	return max(0, m.since.Sub(time.UnixMilli(m.written)))
}

// staleness is the time since a marker was written; since it was served first, if that is unknown.
func (m *Marker) staleness(now time.Time) time.Duration {
	if m.written == 0 {
		return now.Sub(m.since)
	}
	return max(0, now.Sub(time.UnixMilli(m.written)))
}
