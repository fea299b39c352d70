package rundir

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ecrec/ecrec/internal/event"
)

// takeEvents reads the events of the run.
func (r *Run) takeEvents(dir fs.FS) error {
	f, _, err := open(dir, event.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
		return nil
	}
	defer f.Close()
	all, err := event.Read(bufio.NewReader(f))
	for _, e := range event.LastRun(all) {
		r.takeEvent(e)
	}
	return err
}

// takeEvent adds one event.
func (r *Run) takeEvent(e event.Event) {
	if e.Time.After(r.SeenAt) {
		r.SeenAt = e.Time.Time
	}
	if e.Spares != nil {
		r.Spares = e.Spares
	}
	switch e.Event {
	case event.Start, event.Resume:
		r.Started, r.Version = e.Time.Time, e.Version
		r.Step = max(r.Step, e.Step)
		seen := map[string]bool{}
		for _, m := range e.Members {
			if m.Node != "" && !seen[m.Node] {
				r.Hosts = append(r.Hosts, m.Node)
			}
			seen[m.Node] = true
		}
	case event.Loss:
		r.Losses = append(r.Losses, e)
	case event.Returned:
		r.Returns++
	case event.Recovered:
		r.Recoveries++
	case event.Eval:
		r.Eval = &Eval{Step: e.Step, LogLoss: e.LogLoss, AUC: e.AUC}
	case event.Checkpoint:
		r.Checkpoint = &Checkpoint{Step: e.Step, Time: e.Time.Time, Path: e.Path}
	case event.CheckpointFailed:
		r.Warnings = append(r.Warnings, fmt.Sprintf("the checkpoint after step %d was not saved: %s", e.Step, e.Error))
	case event.Warning:
		r.Warnings = append(r.Warnings, e.Cause)
	case event.End:
		r.State, r.Ended, r.Digest, r.Step = Finished, e.Time.Time, e.Digest, max(r.Step, e.Step)
		if r.Steps > e.Step && e.Step > 0 {
			r.State = Stopped
		}
	case event.Failed:
		r.State, r.Ended, r.Error = Failed, e.Time.Time, e.Error
	}
}
