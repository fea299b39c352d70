package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/probe"
)

// faults injects the faults drawn for a run.
type faults struct {
	c         *cluster
	waiting   []fault
	unlimited bool // the number of losses at a time is not limited

	lost losses
	// brokenIn is the generation in which a connection was last broken, if there was no
	// commit since. Zero means none.
	brokenIn    uint64
	frozenUntil time.Duration // until then no other host is frozen
	injected    []fault
	count       [len(kinds)]int // of injected, by kind
	// unrecoverable is true if more ranks were lost at a time than the code tolerates.
	unrecoverable bool
}

// String lists the faults that were injected, and then those that were not.
func (f *faults) String() string {
	var all []string
	for _, x := range f.injected {
		all = append(all, x.String())
	}
	for _, x := range f.waiting {
		all = append(all, "not injected: "+x.String())
	}
	return strings.Join(all, "\n    ")
}

// pointReached is called when a rank reaches a point.
func (f *faults) pointReached(p *process, step int64, point probe.Point) {
	at := f.takeDue(func(x fault) bool { return x.point == point && step >= x.step && x.host == p.host.number })
	if point == probe.Step {
		f.schedule(f.takeDue(func(x fault) bool { return x.point == 0 && x.world == 0 && step >= x.step }))
	}
	for _, x := range at {
		f.injectFault(x)
	}
}

// worldFormed is called when a world begins.
func (f *faults) worldFormed(generation uint64) {
	f.schedule(f.takeDue(func(x fault) bool { return x.world > 0 && generation >= x.world }))
}

// schedule schedules faults after their numbers of decisions.
func (f *faults) schedule(list []fault) {
	for _, x := range list {
		f.c.s.AddAlarm(f.c.s.Decisions()+x.after, func() { f.injectFault(x) })
	}
}

// takeDue removes and returns the faults that are due.
func (f *faults) takeDue(now func(fault) bool) (taken []fault) {
	f.waiting = slices.DeleteFunc(f.waiting, func(x fault) bool {
		if now(x) {
			taken = append(taken, x)
			return true
		}
		return false
	})
	return taken
}
