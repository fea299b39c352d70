package probe

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
)

// Inject may inject a fault where a rank reaches a point. Its error ends the rank.
type Inject func(step int64, at Point) error

// Probe observes one rank.
type Probe struct {
	env    env.Env
	track  *trace.Track
	inject Inject

	begun time.Duration // the stage that is measured now
	spent [Stages]time.Duration
}

// New makes a Probe. Stages are recorded on track, which may be nil; so may inject.
func New(e env.Env, track *trace.Track, inject Inject) *Probe {
	return &Probe{env: e, track: track, inject: inject}
}

// BeginStep clears the times of the step before and begins the first stage.
func (p *Probe) BeginStep() {
	p.begun = p.env.Now()
	p.spent = [Stages]time.Duration{}
}

// Reach is called where a rank reaches a point of a step. If a stage ends there, its time
// is booked and the next stage begins. The error is that of an injected fault.
func (p *Probe) Reach(step int64, at Point) error {
	if stage := table[at].ends; stage != none {
		now := p.env.Now()
		p.spent[stage] += now - p.begun
		p.track.Span(stage.String(), step, p.begun, now)
		p.begun = now
	}
	if p.inject == nil {
		return nil
	}
	return p.inject(step, at)
}

// Book adds to the time of a stage that runs beside the step.
func (p *Probe) Book(s Stage, took time.Duration) { p.spent[s] += took }

// Spent is the time of each stage since BeginStep.
func (p *Probe) Spent() [Stages]time.Duration { return p.spent }
