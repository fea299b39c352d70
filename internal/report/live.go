package report

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Live shows how far a piece of work is: one line that is drawn anew on a
// terminal, plain lines elsewhere.
type Live struct {
	w     io.Writer
	unit  string
	total int64
	bar   *progressbar.ProgressBar // nil: plain lines
	start time.Time
	shown time.Time // when the last plain line of Advance was written
}

// plainEvery is the time between plain lines of Advance.
const plainEvery = 5 * time.Second

// OnTerminal reports whether what is written to w appears on a terminal.
func OnTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// NewLive shows work of total units (0: not known) on w. unit names them,
// "step" say.
func NewLive(w io.Writer, unit string, total int64) *Live {
	return newLive(w, unit, total, OnTerminal(w))
}

func newLive(w io.Writer, unit string, total int64, terminal bool) *Live {
	now := time.Now()
	l := &Live{w: w, unit: unit, total: total, start: now, shown: now}
	if terminal {
		most := total
		if most <= 0 {
			most = -1 // a spinner
		}
		l.bar = progressbar.NewOptions64(most, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription(unit))
	}
	return l
}

// OnTerminal reports whether the line is drawn anew, so that it may be told of
// every step.
func (l *Live) OnTerminal() bool { return l.bar != nil }

// Step shows a step of training: its number, loss and rate. On a terminal any
// step may be shown; elsewhere every call writes a line.
func (l *Live) Step(m Metrics) {
	text := fmt.Sprintf("%s %s  loss %.5f  %s samples/s", l.unit, l.position(int64(m.Step)), float64(m.Loss), Thousands(int64(m.SamplesPerS)))
	text += l.eta(int64(m.Step))
	if l.bar != nil {
		l.bar.Describe(text)
		_ = l.bar.Set64(int64(m.Step)) // a terminal that is gone is no reason to stop
		return
	}
	fmt.Fprintln(l.w, text)
}

// Advance shows that done units are done; elsewhere than on a terminal it writes
// a line every few seconds.
func (l *Live) Advance(done int64) {
	if l.bar != nil {
		l.bar.Describe(fmt.Sprintf("%s %s%s", l.unit, l.position(done), l.eta(done)))
		_ = l.bar.Set64(done)
		return
	}
	if time.Since(l.shown) < plainEvery {
		return
	}
	l.shown = time.Now()
	fmt.Fprintf(l.w, "%s %s%s\n", l.unit, l.position(done), l.eta(done))
}

// Line writes a line that stays.
func (l *Live) Line(format string, args ...any) {
	if l.bar != nil {
		_ = l.bar.Clear()
	}
	fmt.Fprintf(l.w, format+"\n", args...)
}

// Close takes the live line away.
func (l *Live) Close() {
	if l.bar != nil {
		_ = l.bar.Clear()
		_ = l.bar.Exit()
	}
}

func (l *Live) position(done int64) string {
	if l.total <= 0 {
		return Thousands(done)
	}
	return Thousands(done) + "/" + Thousands(l.total)
}

// eta is how long the rest takes at the mean pace so far.
func (l *Live) eta(done int64) string {
	if l.total <= 0 || done <= 0 || done >= l.total {
		return ""
	}
	left := time.Duration(float64(time.Since(l.start)) / float64(done) * float64(l.total-done))
	return "  ETA " + left.Round(time.Second).String()
}

// Thousands writes n with a comma between thousands.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
