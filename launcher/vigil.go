package launcher

import "time"

// vigil notices that nothing is heard of a worker that was heard before.
type vigil struct {
	link *link
	over chan struct{}
}

// keepVigil calls silent once nothing was heard on a link for silentBeats heartbeats. In
// a job that is not elastic nobody looks.
func (s *supervisor) keepVigil(l *link, silent func()) *vigil {
	v := &vigil{link: l, over: make(chan struct{})}
	if s.spec.Elastic {
		go v.keep(s.spec.Heartbeat, silent)
	}
	return v
}

func (v *vigil) keep(heartbeat time.Duration, silent func()) {
	look := time.NewTicker(heartbeat)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-v.over:
			return
		}
		if v.link.heard.Load() > 0 && v.link.tick() {
			silent()
			return
		}
	}
}

func (v *vigil) end() { close(v.over) }
