package control

import (
	"testing"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// Each kind of outcome has its cause code.
func TestCauseCodes(t *testing.T) {
	for how, want := range map[string]eventlog.Cause{
		"killed": eventlog.Signal, "culled": eventlog.Silent, "panic": eventlog.Exit, "silent": eventlog.Exit, "error": eventlog.Exit,
	} {
		o := ends[how]
		if got := o.failureCause().Code; got != want {
			t.Errorf("%s: %q, want %q", how, got, want)
		}
	}
	s := &Supervisor{worker: workerRunning, silent: true}
	for _, a := range s.Step(Event{Kind: EventWorkerExited, Outcome: &Outcome{Signal: 9}}) {
		if o := a.Message.Outcome; o != nil && o.deathCause().Code != eventlog.Silent {
			t.Errorf("a silent worker: %q", o.deathCause().Code)
		}
	}
	if got := isGone.onNewMachine(); got.Code != eventlog.SupervisorGone || got.Text == isGone.Text {
		t.Errorf("%+v", got)
	}
}
