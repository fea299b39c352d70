package launcher

import (
	"sync/atomic"
	"time"
)

// silentBeats is after how many heartbeats a silent process is lost.
const silentBeats = 5

// vigil notices that nothing is heard of a process that was heard before.
type vigil struct {
	heard atomic.Uint64 // messages
	over  chan struct{}
}

// keepVigil calls silent once nothing was heard for silentBeats looks, a heartbeat
// apart: should this process itself stand still, that counts as one. In a job that
// is not elastic nobody looks.
func (s *supervisor) keepVigil(silent func()) *vigil {
	v := &vigil{over: make(chan struct{})}
	if s.spec.Elastic {
		go v.keep(s.spec.Heartbeat, silent)
	}
	return v
}

func (v *vigil) keep(heartbeat time.Duration, silent func()) {
	look := time.NewTicker(heartbeat)
	defer look.Stop()
	for last, missed := uint64(0), 0; missed < silentBeats; {
		select {
		case <-look.C:
		case <-v.over:
			return
		}
		heard := v.heard.Load()
		if heard == last && heard > 0 {
			missed++
		} else {
			last, missed = heard, 0
		}
	}
	silent()
}

func (v *vigil) hear() { v.heard.Add(1) }

func (v *vigil) end() { close(v.over) }

// beat shows the job that this supervisor lives.
func (s *supervisor) beat() {
	every := time.NewTicker(s.spec.Heartbeat)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			s.post(func() { s.tellJob(message{Kind: kindBeat}) })
		case <-s.done:
			return
		}
	}
}
