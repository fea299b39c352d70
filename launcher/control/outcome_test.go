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

// A worker that has said why it fails, and is killed since it ends late, has failed for that reason; one that reports a consequence has not.
func TestLateEnd(t *testing.T) {
	for _, x := range []struct {
		report *Report
		culled bool
		code   int
	}{{&Report{Code: 1, Error: "the disk is full"}, false, 1}, {&Report{Code: 1, Error: "rank 2 is lost", IsConsequence: true}, true, 0}, {nil, true, 0}} {
		s := &Supervisor{worker: workerRunning, culled: true, report: x.report}
		found := false
		for _, a := range s.Step(Event{Kind: EventWorkerExited, Outcome: &Outcome{Signal: 9, Tail: []string{"line"}}}) {
			if o := a.Message.Outcome; o != nil {
				found = true
				if o.Culled != x.culled || o.Code != x.code || o.isConsequence() != x.culled || len(o.Tail) != 1 {
					t.Errorf("%+v: %+v", x.report, o)
				}
			}
		}
		if !found {
			t.Errorf("%+v: no outcome", x.report)
		}
	}
}
