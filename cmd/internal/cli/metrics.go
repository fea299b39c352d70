package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/exporter"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/event"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/nvml"
	"github.com/ecrec/ecrec/train"
)

// metrics exports the figures of a process for Prometheus.
type metrics struct {
	unobserved
	exporter *exporter.Exporter // nil: none is configured
	meter    *train.Meter       // the source of its figures
	delayed  error              // why the figures cannot be fetched yet
	gpu      *nvml.Watch        // nil: no GPU is used, or it cannot be observed
}

// openMetrics begins to export this process's figures as [metrics] says. If the figures of the
// job cannot be exported, that is an error before the job begins. Later, and on other
// processes, it is a warning in the log.
func (s *session) openMetrics() error {
	m := s.cfg.Metrics
	if m.Listen == "" && m.Textfile == "" {
		return nil
	}
	s.metrics.meter = &train.Meter{}
	local := s.localProcess()
	e := exporter.New(exporter.Options{Run: s.cfg.Job.Name, Version: buildinfo.Read().String(), Model: s.cfg.Model.Kind,
		Process: s.process, Node: machine.NodeName(), Spares: s.cfg.Elastic.Spares, LogEvery: int64(s.cfg.Train.LogEvery),
		Events: filepath.Join(s.cfg.Job.Out, event.File), Meter: s.metrics.meter})
	s.metrics.exporter = e
	strict := s.isReporter() && !s.isReplacement()
	if m.Textfile != "" {
		path := textfileOf(m.Textfile, local)
		if err := report.CheckDir(filepath.Dir(path), "metrics.textfile"); err != nil && strict {
			return config.Errorf("%v", err)
		}
		e.WriteTo(path)
	}
	if m.Listen == "" {
		return nil
	}
	addr, err := exporter.Addr(m.Listen, local)
	if err == nil {
		err = e.Listen(addr)
	}
	switch {
	case err == nil:
	case strict:
		return config.Errorf("metrics.listen = %q: %v; choose another port", m.Listen, err)
	default:
		e.KeepTrying(addr)
		s.metrics.delayed = err
	}
	return nil
}

// logAddress logs where the figures can be fetched.
func (m *metrics) logAddress(run *report.Run) {
	switch {
	case m.delayed != nil:
		run.Log().Warn().Err(m.delayed).Msg("no metrics yet")
	case m.exporter.Serves() != "":
		run.Log().Info().Str("address", m.exporter.Serves()).Msg("metrics")
	}
}

// watchGPU adds the figures of the GPU that a job uses.
func (m *metrics) watchGPU(i train.Info, run *report.Run) {
	if i.GPU == [16]byte{} {
		return
	}
	var err error
	if m.gpu, err = nvml.Start(i.GPU); err != nil {
		run.Log().Warn().Err(err).Msg("metrics without the GPU's")
	}
	m.exporter.Watch(m.gpu)
}

// latestGPU returns the newest figures of the GPU, if there are any.
func (m *metrics) latestGPU() (nvml.Sample, bool) { return m.gpu.Latest() }

// endMetrics exports the end of the run. The figures stay until the exporter is closed.
func (m *metrics) endMetrics(failed error, stopped bool) {
	m.exporter.Watch(nil)
	m.gpu.Close()
	m.gpu = nil
	m.exporter.Ended(failed, stopped)
}

// How long a run that has ended waits for a scrape of its last figures. After a signal a container is killed in 10 s.
const (
	endLimit     = 30 * time.Second
	stoppedLimit = 5 * time.Second
)

// awaitScrape lets Prometheus read the end of the run. A signal after the end, or a loss that needs this process again, ends the wait.
func (s *session) awaitScrape() {
	limit, stopped := endLimit, s.app.stop.isRequested()
	if stopped {
		limit = stoppedLimit
	}
	s.metrics.exporter.AwaitScrape(limit, func() bool {
		return !stopped && s.app.stop.isRequested() || s.world != nil && s.worldChanges(0)
	}, func() {
		fmt.Fprintf(s.app.errw, "the run has ended; waiting up to %v until its last metrics are scraped, or a signal\n", limit)
	})
}

// Step implements observer, as do the methods below.
func (m *metrics) Step(i train.StepInfo)          { m.exporter.Step(i) }
func (m *metrics) Committed(step int64, _ string) { m.exporter.Committed(step) }
func (m *metrics) Recovered(x train.Recovery)     { m.exporter.Recovered(x) }

// localProcess returns the index of this process among the job's processes on its node, in the
// order of their numbers.
func (s *session) localProcess() (n int) {
	if s.world == nil {
		for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"} {
			if n, err := strconv.Atoi(os.Getenv(name)); err == nil && s.comm != nil {
				return n
			}
		}
		return 0
	}
	for _, p := range present(s.world) {
		if p < s.process && s.world.Processes[p].Host == s.world.Processes[s.process].Host {
			n++
		}
	}
	return n
}

// textfileOf returns the textfile of process number local of a node: run.prom, run-1.prom, ...
func textfileOf(path string, local int) string {
	if local == 0 {
		return path
	}
	return fmt.Sprintf("%s-%d.prom", strings.TrimSuffix(path, ".prom"), local)
}
