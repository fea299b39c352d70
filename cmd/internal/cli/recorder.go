package cli

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/hook"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/train"
)

// recorder writes the events of a run while it trains, on the process that hosts rank 0. The
// function conclude writes the last events: the end, and losses after which no rank trained.
type recorder struct {
	cfg     *config.Config
	env     env.Env
	process int
	world   func() *launcher.World // the newest; it returns nil in a job without supervisors
	warn    func(string)

	id    string           // of the job
	log   *report.EventLog // nil: not open
	hooks *hook.Hooks
	seq   int64           // of the newest incident in the file
	seen  *launcher.World // its incidents are in the file
	step  int64           // the newest
	// durable is the step of the last event Durable.
	durable int64
	lostOn  map[int]string // by rank: the node of its newest loss
	broken  bool           // an event could not be written
	begun   bool           // the job's first event is in the file
	early   []event.Event  // observed before the log was open
}

// jobID returns the id of this job, which no other job in the folder has. Without supervisors
// it is random.
func (r *recorder) jobID() string {
	w := r.world()
	switch {
	case r.id != "":
	case w != nil:
		r.id = w.ID
	default:
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails
		r.id = hex.EncodeToString(id[:])
	}
	return r.id
}

// openRecords opens the log of events. Another process of this job may have written to it before.
func (r *recorder) openRecords(run *report.Run) (err error) {
	if r.log, err = run.Events(); err != nil {
		return err
	}
	r.hooks = hook.New(r.cfg.Job.OnEvent.Argv(), r.cfg.Job.Out, *run.Log())
	past := eventsOf(r.cfg.Job.Out, r.jobID())
	r.begun, r.seq, r.step = len(past) > 0, newestSeq(past), max(r.step, newestStep(past))
	return nil
}

// closeLog closes the log, once the commands of job.on_event have ended. After a signal it waits for seconds only.
func (r *recorder) closeLog(stopped bool) {
	if r.log != nil {
		r.hooks.Close(hook.CloseLimit(stopped))
		_ = r.log.Close() // each line was checked
		r.log, r.hooks = nil, nil
	}
}

// recordEvent writes an event, after the incidents that happened before it.
func (r *recorder) recordEvent(e event.Event) {
	r.recordIncidents()
	r.writeEvent(e)
}

func (r *recorder) writeEvent(e event.Event) {
	if r.log == nil {
		if e.Time = event.At(time.Now()); len(r.early) < maxEarly {
			r.early = append(r.early, e)
		}
		return
	}
	if e.Step == 0 && e.Event != event.Commit { // a loss before the first commit leads back to step 0
		e.Step = r.step
	}
	if w := r.world(); w != nil && elastic(r.cfg) && e.Event.HasSpares() {
		e.Spares = event.Number(w.Spares)
	}
	err := r.env.Do("event", func() error { return r.log.Write(e) })
	if err != nil && !r.broken {
		r.broken = true
		r.warn(fmt.Sprintf("%s: cannot write %s (%v); training continues, and lines that cannot be written are left out",
			r.cfg.Job.Out, event.File, err))
	}
	if !e.Event.IsFrequent() { // too many for commands
		r.hooks.Add(e)
	}
}

// maxEarly bounds the events observed before the log is open: warnings about the config, and
// checkpoints that are skipped.
const maxEarly = 64

// writeEarly writes the events observed before the log was open.
func (r *recorder) writeEarly() {
	early := r.early
	r.early = nil
	for _, e := range early {
		r.recordEvent(e)
	}
}

// newEvent returns an event of this process.
func (r *recorder) newEvent(name event.Name) event.Event {
	return event.Event{Event: name, Process: event.Number(r.process), Node: machine.NodeName(), PID: os.Getpid()}
}

// recordIncidents writes the new incidents of the newest world.
func (r *recorder) recordIncidents() {
	w := r.world()
	if w == nil || r.seen == w || r.log == nil {
		return
	}
	r.seen = w
	for _, i := range w.Incidents {
		if i.Kind == control.IncidentLoss {
			for _, rank := range i.Ranks {
				r.lostOn[rank] = i.Node
			}
		}
		if i.Seq > r.seq {
			r.seq = i.Seq
			r.writeEvent(incidentEvent(i))
		}
	}
}

// startEvent returns the first event of a job.
func (r *recorder) startEvent(i train.Info) event.Event {
	e := r.newEvent(event.Start)
	if i.Began > 0 {
		e.Event, e.Step = event.Resume, i.Began
		if o := i.Origin; o != nil {
			e.Path, e.Topic = o.Path, o.Source
		}
	}
	e.Job, e.Version, e.Generation = r.id, buildinfo.Read().Version, 1
	w := r.world()
	if w == nil {
		e.Members = []event.Process{{Process: r.process, Node: machine.NodeName(), PID: os.Getpid()}}
		return e
	}
	e.Generation = w.Generation
	for _, n := range present(w) {
		p := w.Processes[n]
		e.Members = append(e.Members, event.Process{Process: n, Ranks: p.Ranks, Node: p.Node, PID: p.PID})
	}
	return e
}

// lostNodes names the nodes on which ranks were lost.
func (r *recorder) lostNodes(ranks []int) string {
	var names []string
	for _, rank := range ranks {
		if name := r.lostOn[rank]; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Step writes the incidents before a step, with the number of the step before it.
func (r *recorder) Step(i train.StepInfo) {
	r.recordIncidents()
	r.step = i.Step
	if i.Durable > r.durable {
		r.durable = i.Durable
		e := r.newEvent(event.Durable)
		e.Step = i.Durable
		r.recordEvent(e)
	}
}

// Evaluated writes an evaluation.
func (r *recorder) Evaluated(e train.Eval) {
	x := r.newEvent(event.Eval)
	x.Step, x.LogLoss, x.AUC = e.Step, event.Finite(e.Logloss), event.Finite(e.AUC)
	r.recordEvent(x)
}

// Committed writes the digest of the model at a commit.
func (r *recorder) Committed(step int64, digest string) {
	if digest == "" {
		return
	}
	e := r.newEvent(event.Commit)
	e.Step, e.Digest = step, digest
	r.recordEvent(e)
}

// Checkpointed writes the path of a checkpoint, or why it could not be saved.
func (r *recorder) Checkpointed(step int64, path string, err error) {
	e := r.newEvent(event.Checkpoint)
	if e.Step, e.Path = step, path; err != nil {
		e.Event, e.Path, e.Error = event.CheckpointFailed, "", oneLine(err)
	}
	r.recordEvent(e)
}

// SkippedCheckpoint writes why a checkpoint was not used.
func (r *recorder) SkippedCheckpoint(path string, err error) {
	e := r.newEvent(event.Warning)
	e.Cause, e.Path = skipped(err), path
	r.recordEvent(e)
}

// Recovered writes a recovery.
func (r *recorder) Recovered(x train.Recovery) {
	r.recordIncidents()
	r.writeEvent(event.Event{Event: event.Recovered, Step: x.Step, Ranks: x.Ranks, Node: r.lostNodes(x.Ranks),
		CommittedStep: x.CommittedStep, ResumeMS: x.ResumeMS, WholeMS: x.WholeMS, RebuildRate: math.Round(x.RebuildRate)})
}

// Warned writes a warning.
func (r *recorder) Warned(what string) {
	e := r.newEvent(event.Warning)
	e.Cause = oneLine(errors.New(what))
	r.recordEvent(e)
}

// eventsOf returns the events of a job in a folder, none if it has not begun to train.
func eventsOf(dir, id string) []event.Event {
	all, err := event.ReadFile(filepath.Join(dir, event.File))
	if err != nil {
		return nil
	}
	if all = event.LastRun(all); len(all) == 0 || all[0].Job != id {
		return nil
	}
	return all
}

func newestStep(all []event.Event) (step int64) {
	for _, e := range all {
		step = max(step, e.Step)
	}
	return step
}

func newestSeq(all []event.Event) (seq int64) {
	for _, e := range all {
		seq = max(seq, e.Seq)
	}
	return seq
}

// incidentEvent returns an incident as an event.
func incidentEvent(i control.Incident) event.Event {
	e := event.Event{Time: event.At(i.Time()), Event: event.Name(i.Kind), Ranks: i.Ranks, Node: i.Node, PID: i.PID,
		Cause: i.Cause, CauseCode: i.Code,
		Generation: i.Generation, Seq: i.Seq}
	switch i.Kind {
	case control.IncidentLoss, control.IncidentJoin, control.IncidentReturn:
		e.Process = event.Number(i.Process)
	}
	if by := i.By; by != nil {
		e.ReplacedBy = &event.Process{Process: by.Process, Node: by.Node, PID: by.PID}
	}
	return e
}

// nodes returns the names of the machines of a world, each once.
func nodes(w *launcher.World) (names []string) {
	for _, n := range present(w) {
		if name := w.Processes[n].Node; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
