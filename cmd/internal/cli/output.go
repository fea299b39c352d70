package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/launcher/place"
)

// Which process writes to the console, and how.

// flushLimit is how long a run that has ended waits for the readers of its output.
const flushLimit = 5 * time.Second

// spoolOutput puts a buffer before the output of a worker, which then never waits for a reader:
// a launcher that is killed may leave a pipe without one. A terminal needs no buffer. The caller
// calls flush at the end of the run.
func (a *app) spoolOutput() (flush func()) {
	if report.OnTerminal(a.out) {
		return func() {}
	}
	s := report.NewSpool(a.out)
	a.out = s
	return func() { s.Flush(flushLimit) }
}

// waitUntilRead waits until the pipes among files are empty, flushLimit at most: a launcher that
// ends the job may not read what is still in them.
func waitUntilRead(files ...*os.File) {
	for end := time.Now().Add(flushLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left := 0
		for _, f := range files {
			about, err := f.Stat()
			if err != nil || about.Mode()&os.ModeNamedPipe == 0 {
				continue
			}
			left += unread(f)
		}
		if left == 0 {
			return
		}
	}
}

// printStatus prints a line about the processes of a job. On a terminal it replaces the progress
// line of a worker. Elsewhere it begins with the time, unless the job is over.
func (a *app) printStatus(text string, over bool) {
	before := ""
	switch {
	case report.Draws(a.errw):
		before = "\r\x1b[K"
	case !over:
		before = report.Clock(time.Now()) + " "
	}
	fmt.Fprintln(a.errw, before+"ecrec: "+text)
}

// reportDelay is how long the other processes wait for process 0 to report an error: mpirun ends
// it once one of them has ended.
const reportDelay = time.Second

// reportOnce returns an error that all processes of a job have on one host, but only on process
// 0. On several hosts each process returns it, since a file may be missing on one of them.
func (a *app) reportOnce(place place.Place, err error) error {
	if a.stop.world == nil && place.Process > 0 && place.OneHost {
		time.Sleep(reportDelay)
		return jobEnded(a.exitCode(err))
	}
	return err
}
