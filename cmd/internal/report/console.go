package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// launchers lists prefixes of variables that launchers set for the processes of a job. Launchers
// collect the output, even if it looks like a terminal: Open MPI gives each process a pty.
var launchers = []string{"OMPI_", "PMI_", "PMIX_", "SLURM_PROCID=", "RANK="}

// OnTerminal reports whether w writes to a terminal.
func OnTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Draws reports whether a line on w may be redrawn: w is a terminal that a person watches.
func Draws(w io.Writer) bool { return OnTerminal(w) && isInteractive(os.Environ()) }

// isInteractive reports whether an environment is that of a terminal that can redraw, and not that
// of a launcher or a CI job.
func isInteractive(environ []string) bool {
	for _, v := range environ {
		if v == "TERM=dumb" || strings.HasPrefix(v, "CI=") && v != "CI=" && v != "CI=false" {
			return false
		}
		for _, l := range launchers {
			if strings.HasPrefix(v, l) {
				return false
			}
		}
	}
	return true
}

// Line writes a status line. It begins with the time unless a person watches the terminal.
func Line(w io.Writer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !Draws(w) {
		text = Clock(time.Now()) + " " + text
	}
	fmt.Fprintln(w, text)
}

// Clock returns the time of day for the beginning of a line.
func Clock(t time.Time) string { return t.Format(time.TimeOnly) }

// Count returns a number with its noun: "1 rank", "1,024 ranks".
func Count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Thousands(n) + " " + noun
}
