package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/cmd/internal/hook"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher/control"
)

// conclude writes the last events of a job: incidents that no worker has written, and the end.
// It writes nothing for a job that has not begun to train, or that counts this process as lost: the others continue it.
func conclude(cfg *config.Config, process int, c control.Closing) {
	past := eventsOf(cfg.Job.Out, c.ID)
	if len(past) == 0 || isGivenUp(past, process, c) {
		return
	}
	log, err := report.ReopenEvents(cfg.Job.Out, process)
	if err != nil {
		return // the console and the exit code report the end of the job
	}
	defer log.Close()
	hooks := hook.New(cfg.Job.OnEvent.Argv(), cfg.Job.Out, *log.Log())
	defer hooks.Close(hook.CloseLimit(c.Stopped))
	write := func(e event.Event) {
		_ = log.Write(e) // as above
		hooks.Add(e)
	}
	seq, step := newestSeq(past), newestStep(past)
	for _, i := range c.Incidents {
		if i.Seq > seq {
			e := incidentEvent(i)
			e.Step = step
			write(e)
		}
	}
	write(endEvent(cfg.Job.Out, c, step))
}

// isGivenUp reports whether the events of a job have the loss of a process that ends with an error and does not know of
// it: it was cut off from the others.
func isGivenUp(past []event.Event, process int, c control.Closing) bool {
	known := int64(0)
	for _, i := range c.Incidents {
		known = max(known, i.Seq)
	}
	return c.Code != 0 && !c.Stopped && slices.ContainsFunc(past, func(e event.Event) bool {
		return e.Event == event.Loss && e.Process != nil && *e.Process == process && e.Seq > known
	})
}

// endEvent returns the last event of a job.
func endEvent(dir string, c control.Closing, step int64) event.Event {
	why, _, _ := strings.Cut(c.Why, "\n") // the end of a log may follow
	e := event.Event{Event: event.Failed, Step: step, Node: machine.NodeName(), PID: os.Getpid(), Error: why}
	if c.Code != 0 && !c.Stopped {
		return e
	}
	e.Event, e.Error = event.End, ""
	if c.Stopped {
		e.Cause = fmt.Sprintf("stopped by signal %d", c.Code-128)
	}
	var sum struct {
		Steps  int64
		Digest string
	}
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil && json.Unmarshal(text, &sum) == nil {
		e.Step, e.Digest = sum.Steps, sum.Digest
	}
	return e
}
