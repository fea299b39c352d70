package exporter

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/ecrec/ecrec/train"
)

// The last step of a run that has ended is the one at which it ended. One that a signal stopped has steps before it.
func TestPlannedSteps(t *testing.T) {
	for _, x := range []struct {
		planned int64
		failed  error
		stopped bool
		want    string
	}{
		{0, nil, false, `ecrec_steps_planned{run="r"} 7`},
		{0, nil, true, "no ecrec_steps_planned"},
		{100, nil, false, `ecrec_steps_planned{run="r"} 7`}, // it ended early
		{100, nil, true, `ecrec_steps_planned{run="r"} 100`},
		{100, io.ErrUnexpectedEOF, false, `ecrec_steps_planned{run="r"} 100`},
	} {
		e := open(t)
		if err := e.Listen("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		e.Started(train.Info{Steps: x.planned})
		e.Step(train.StepInfo{Step: 7})
		if x.planned == 0 {
			expect(t, shows(t, e), "no ecrec_steps_planned")
		}
		e.Ended(x.failed, x.stopped)
		expect(t, shows(t, e), x.want, `ecrec_step{run="r"} 7`)
		e.Close()
	}
}

// The figures of the end stay until a scrape has read them, if there was one before.
func TestAwaitScrape(t *testing.T) {
	never, long := func() bool { return false }, time.Hour
	e := open(t)
	if err := e.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Started(train.Info{Steps: 7})
	e.Ended(nil, false)
	e.AwaitScrape(long, never, nil) // nothing scrapes it
	e.Step(train.StepInfo{Step: 7})
	shows(t, e)
	for _, failed := range []error{nil, io.ErrUnexpectedEOF} { // the second time after a loss
		e.Ended(failed, false)
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			e.AwaitScrape(long, never, nil)
		}()
		select {
		case <-waits:
			t.Error("it does not wait for a scrape")
		case <-time.After(3 * lookEvery):
		}
		expect(t, shows(t, e), `ecrec_running{run="r"} 0`, fmt.Sprintf(`ecrec_failed{run="r"} %v`, truth(failed != nil)))
		<-waits
	}
	e.Ended(nil, false)
	e.AwaitScrape(time.Millisecond, never, nil)
	stops := 0
	e.AwaitScrape(long, func() bool { stops++; return stops == 2 }, nil)
	e.Moved()
	e.AwaitScrape(long, never, nil) // another process shows the end
}
