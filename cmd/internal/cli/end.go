package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/train"
)

// The end of a run: its summary, and the last lines on the console.

// finishRun writes the summary, also of a failed run. It returns the run's error, or else the error
// in writing.
func (s *session) finishRun(r *train.Result, failed error) error {
	reports, began := s.isReporter(), s.folder.run != nil
	if !began && (!reports || !s.isReplacement()) {
		return failed
	}
	if heir := s.ending != nil && s.ending.PrintedBy == s.process; !reports && !heir {
		return s.finishLog(failed)
	}
	if s.console.live == nil { // the process that reported before is lost
		if err := s.env.Do("begin output", s.beginOutput); err != nil {
			return failed
		}
		s.console.showSteps(s.info.Steps)
	}
	s.console.live.Close()
	s.curves.closeBoard()
	s.metrics.endMetrics(failed, r != nil && r.Stopped)
	sum := s.folder.newSummary(r, s.info)
	sum.Command, sum.Hosts = append([]string{"ecrec"}, s.app.args...), s.hostNames()
	log := s.folder.run.Log()
	if failed != nil {
		sum.Error = oneLine(failed)
		log.Error().Str("error", sum.Error).Msg("failed")
	} else {
		log.Info().Int64("steps", r.Steps).Bool("stopped", r.Stopped).Str("digest", r.Digest).Msg("end")
	}
	if err := s.env.Do("summary", func() error { return s.folder.run.Finish(sum) }); err != nil && failed == nil {
		failed = fmt.Errorf("%s: cannot write summary.json: %w", s.cfg.Job.Out, err)
	}
	if s.world != nil && failed != nil { // before commands that may take longer than this process is given
		s.app.reportTo(s.world, failed)
	}
	s.events.closeLog(s.app.stop.isRequested()) // the result is in its place: no command can delay it
	failed = s.closeRun(failed)
	if s.world != nil && failed == nil { // after a failure the others wait for the end of this process
		s.awaitScrape()
	}
	return failed
}

// finishLog ends the log of a process that does not report for the job.
func (s *session) finishLog(failed error) error {
	log := s.folder.run.Log()
	if failed != nil {
		log.Error().Str("error", oneLine(failed)).Msg("failed")
	} else {
		log.Info().Msg("end")
	}
	return s.closeRun(failed)
}

// closeRun closes the log and leaves the folder. It returns the run's error, or else its own.
func (s *session) closeRun(failed error) error {
	if err := s.env.Do("log", s.folder.run.Close); err != nil && failed == nil {
		failed = fmt.Errorf("%s: cannot write the log: %w", s.cfg.Job.Out, err)
	}
	return failed
}

// closeSession prints the result of a run, and ends its metrics. In a job without supervisors it also writes the end to the
// events.
func (s *session) closeSession(r *train.Result, failed error) error {
	err := failed
	if err == nil {
		err = s.printResult(r)
	}
	if s.world == nil && s.events.id != "" {
		end := control.Closing{ID: s.events.id, Stopped: errors.Is(err, errStopped)}
		if err != nil {
			end.Code, end.Why = s.app.exitCode(err), oneLine(err)
		}
		conclude(s.cfg, s.process, end)
	}
	if s.world == nil && (s.comm == nil || failed == nil) {
		s.awaitScrape()
	}
	s.metrics.exporter.Close()
	return err
}

// printResult prints the last lines of a run that has not failed.
func (s *session) printResult(r *train.Result) error {
	if run := s.folder.run; s.isReporter() && run != nil {
		if r.Skipped > 0 {
			fmt.Fprintf(s.app.out, "skipped %s malformed samples (data.on_error = \"skip\")\n", report.Thousands(r.Skipped))
		}
		fmt.Fprintln(s.app.out, s.folder.paceText(r))
		fmt.Fprintf(s.app.out, "digest %s\nwritten to %s\n", r.Digest, run.Written())
		if at := run.Written(); at != s.cfg.Job.Out {
			fmt.Fprintf(s.app.out, "%s still holds the earlier finished result\n", s.cfg.Job.Out)
		}
		if r.EndedEarly {
			fmt.Fprintf(s.app.out, "ended after step %s: %s without a better %s (train.patience)\n", report.Thousands(r.Steps),
				report.Count(int64(s.cfg.Train.Patience), "evaluation"), s.cfg.Train.BestBy)
		}
		if r.InputEnded {
			fmt.Fprintf(s.app.out, "ended after step %s: %s has no more samples for a step\n", report.Thousands(r.Steps), s.cfg.Data.Train[0])
		}
		if text := keptText(r); text != "" {
			fmt.Fprintln(s.app.out, text)
		}
	}
	if r.Stopped {
		return fmt.Errorf("%w; %s", errStopped, s.savedText(r))
	}
	return nil
}

// keptText names the model that was saved by its evaluation. It is empty if there is none.
func keptText(r *train.Result) string {
	e := r.ModelEval
	if r.ModelDigest == "" || e == nil {
		return ""
	}
	which := "the last"
	if e.Step != r.Steps {
		which = "the best, not the last"
	}
	return fmt.Sprintf("kept the model of step %s (%s): logloss %.6f, AUC %s", report.Thousands(e.Step), which, e.Logloss, formatAUC(e.AUC))
}

// paceText returns the number of steps and their speed.
func (f *runFolder) paceText(r *train.Result) string {
	if f.samples == 0 {
		return fmt.Sprintf("%s, none trained by this run", report.Count(r.Steps, "step"))
	}
	ms := f.steps.StepMS()
	return fmt.Sprintf("%s, %s samples/s, step %.3g ms (median), %.3g ms (99 %%)", report.Count(r.Steps, "step"),
		report.Thousands(int64(perSecond(f.samples, f.busy))), float64(ms.P50), float64(ms.P99))
}

// savedText describes what is saved of a run that a signal stopped.
func (s *session) savedText(r *train.Result) string {
	model := "the model is saved"
	if !s.cfg.Job.SaveModel {
		model = "no model is saved (job.save_model = false)"
	}
	if to := s.cfg.Stream.To; s.cfg.Checkpoint.Dir == "" && s.cfg.Store.Path == "" && to != "" {
		if strings.ContainsAny(to, "&?; ") { // of a shell
			to = "'" + to + "'"
		}
		return "progress is saved up to the last commit that stream.to has; " +
			"continue from there with --resume " + to
	}
	if s.cfg.Checkpoint.Dir == "" && s.cfg.Store.Path == "" {
		return model + "; without checkpoint.dir or store.path the run cannot be resumed"
	}
	if s.cfg.Checkpoint.Dir == "" && r.NotDurable > 0 {
		if r.Durable == 0 {
			return model + "; the logs of store.path have nothing of the run, so it cannot be resumed"
		}
		return fmt.Sprintf("progress up to step %s of %s is saved in the logs of store.path; continue from there with --resume auto",
			report.Thousands(r.Durable), report.Thousands(r.Durable+r.NotDurable))
	}
	return "progress is saved; continue with --resume auto"
}

// hostNames returns the names of the hosts of this run's processes, each once.
func (s *session) hostNames() []string {
	switch {
	case s.world != nil:
		return nodes(s.world)
	case s.comm == nil:
		return []string{machine.NodeName()}
	}
	names := slices.Clone(s.hosts)
	slices.Sort(names)
	return slices.Compact(names)
}
