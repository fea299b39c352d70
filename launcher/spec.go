package launcher

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
)

// Spec describes a job.
type Spec struct {
	Ranks int
	// Spares is how many of the place's processes wait for another's loss: those with the
	// highest numbers.
	Spares int
	// Elastic is true if the job survives the loss of workers: they are replaced.
	// MaxRestarts bounds the losses in a row without a commit between.
	Elastic     bool
	MaxRestarts int
	// Faults names the faults that workers may request (World.Fire), by number. A fault that
	// has not fired by the end of the job is reported.
	Faults []string
	// Heartbeat is the interval of heartbeats in an elastic job. A process that misses
	// heartbeat.Missed of them is lost.
	Heartbeat time.Duration
	// Out is the folder where workers keep process-P.log.
	Out string
	// Keep, if not nil, is a file that every worker of a supervisor inherits, at descriptor
	// KeptFile: one worker after the other.
	Keep *os.File
	// Prepare, if not nil, is called in a supervisor that waits without a worker, such as a
	// spare: it has time to prepare Keep. It returns when proceed returns false.
	Prepare func(proceed func() bool)
	// Standby has each supervisor of an elastic job keep a standby, which replaces its next lost
	// worker.
	Standby bool
	// Args are this program's arguments; every process gets the same.
	Args []string
	// Same must be equal on all processes: a digest of config and program.
	Same string
	// Stdout receives the output of rank 0's worker, Stderr errors of one line each.
	Stdout, Stderr io.Writer
	// Print, if not nil, prints a line about the running job, in place of Stderr; last marks
	// the line about the job's end.
	Print func(text string, last bool)
	// Closed, if not nil, is called in one process of the job after its end, when no worker
	// of this process lives. It can record events after the last world.
	Closed func(control.Closing)
}

func (s *Spec) logPath(process int) string {
	return filepath.Join(s.Out, fmt.Sprintf("process-%d.log", process))
}

func (s *Spec) shapeOf(p place.Place, launched bool) control.Shape {
	return control.Shape{Processes: p.Processes - s.Spares, Spares: s.Spares, Ranks: s.Ranks, Elastic: s.Elastic, MaxRestarts: s.MaxRestarts,
		Faults: s.Faults, Launched: launched}
}

// printLine prints a line for people.
func (s *Spec) printLine(text string, last bool) {
	if s.Print != nil {
		s.Print(text, last)
		return
	}
	fmt.Fprintln(s.Stderr, "ecrec: "+text)
}
