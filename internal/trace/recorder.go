package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// maxSpans is the most spans that a track keeps.
	maxSpans = 1 << 16
	// maxDepth is the most open spans of a track.
	maxDepth = 64
)

// Recorder is the trace of one process. A nil Recorder records nothing.
type Recorder struct {
	env env.Env

	mon    env.Monitor // guards the fields below
	zero   time.Duration
	tracks []*Track
}

// New returns a Recorder. Its times count from now.
func New(e env.Env) *Recorder { return &Recorder{env: e, mon: e.Monitor("trace"), zero: e.Now()} }

// Zero lets all times count from now, also of earlier spans.
func (r *Recorder) Zero() {
	if r == nil {
		return
	}
	r.mon.Lock()
	r.zero = r.env.Now()
	r.mon.Unlock()
}

// Track adds a track to a process's timeline, below those added before.
func (r *Recorder) Track(process int, name string) *Track {
	if r == nil {
		return nil
	}
	t := &Track{env: r.env, process: process, name: name, mon: r.env.Monitor("trace track")}
	r.mon.Lock()
	r.tracks = append(r.tracks, t)
	r.mon.Unlock()
	return t
}

// Track is a line of a timeline. A nil Track records nothing.
type Track struct {
	env     env.Env
	process int
	name    string

	mon     env.Monitor // guards the fields below
	spans   []span      // in the order of their ends; a ring when it is full
	oldest  int         // in a full ring
	dropped int64
	open    []span // begun, outermost first
}

type span struct {
	name       string
	step       int64
	begin, end time.Duration // of Env.Now
}

// Begin opens a span within the open ones.
func (t *Track) Begin(name string, step int64) {
	if t == nil {
		return
	}
	t.mon.Lock()
	defer t.mon.Unlock()
	if len(t.open) == maxDepth {
		panic("trace: " + t.name + ": Begin without End")
	}
	t.open = append(t.open, span{name: name, step: step, begin: t.env.Now()})
}

// End ends the span that was opened last.
func (t *Track) End() {
	if t == nil {
		return
	}
	t.mon.Lock()
	defer t.mon.Unlock()
	n := len(t.open)
	if n == 0 {
		panic("trace: " + t.name + ": End without Begin")
	}
	s := t.open[n-1]
	t.open = t.open[:n-1]
	s.end = t.env.Now()
	t.addSpan(s)
}

// Span records a complete span, in times of Env.Now.
func (t *Track) Span(name string, step int64, begin, end time.Duration) {
	if t == nil {
		return
	}
	t.mon.Lock()
	defer t.mon.Unlock()
	t.addSpan(span{name, step, begin, end})
}

func (t *Track) addSpan(s span) {
	if len(t.spans) < maxSpans {
		t.spans = append(t.spans, s)
		return
	}
	t.spans[t.oldest] = s
	t.oldest = (t.oldest + 1) % maxSpans
	t.dropped++
}

// copySpans returns the spans of a track, outer ones before inner ones. Open spans end now.
func (t *Track) copySpans() (spans []span, dropped int64) {
	t.mon.Lock()
	defer t.mon.Unlock()
	spans = slices.Clone(t.spans)
	for _, s := range t.open {
		s.end = t.env.Now()
		spans = append(spans, s)
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end))
	})
	return spans, t.dropped
}
