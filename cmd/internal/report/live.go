package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Live shows the progress of a task: a line that is redrawn on a terminal that a person watches, and
// plain lines elsewhere.
type Live struct {
	w     io.Writer
	unit  string
	total int64
	bar   *progressbar.ProgressBar // nil: plain lines
	start time.Time
	first int64     // units that were done at the start
	steps bool      // Step was called
	shown time.Time // of the last plain line; zero: none
}

const (
	// stepEvery is the least time between plain lines of Step.
	stepEvery = time.Second
	// advanceEvery is the least time between plain lines of Advance.
	advanceEvery = 5 * time.Second
)

// NewLive shows the progress of total units (0: unknown) on w. unit is their name, for example
// "step".
func NewLive(w io.Writer, unit string, total int64) *Live {
	return newLive(w, unit, total, Draws(w))
}

func newLive(w io.Writer, unit string, total int64, draws bool) *Live {
	l := &Live{w: w, unit: unit, total: total, start: time.Now()}
	if draws {
		most := total
		if most <= 0 {
			most = -1 // a spinner
		}
		// The spinner turns when Advance is called, not by itself, so that it ends with the task.
		l.bar = progressbar.NewOptions64(most, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetDescription(unit))
	}
	return l
}

// Draws reports whether the line is redrawn, so that every step can be shown.
func (l *Live) Draws() bool { return l.bar != nil }

// Step shows a step of training: its number, loss and rate. A redrawn line shows every step. Plain
// lines are limited to one per second, except for the first and the last step. The first call is for the
// first step after the start, which is not step 1 if the run resumed, or if another process began it.
func (l *Live) Step(m Metrics) (written bool) {
	if !l.steps {
		l.steps, l.first = true, int64(m.Step)-1
	}
	text := fmt.Sprintf("%s %s  loss %.5f  %s samples/s", l.unit, l.position(int64(m.Step)), float64(m.Loss), Thousands(int64(m.SamplesPerS)))
	text += l.eta(int64(m.Step)) + m.Rebuild.text()
	if l.bar != nil {
		l.bar.Describe(text)
		_ = l.bar.Set64(int64(m.Step)) // a closed terminal is no reason to stop
		return true
	}
	now := time.Now()
	if now.Sub(l.shown) < stepEvery && int64(m.Step) != l.total {
		return false
	}
	l.shown = now
	fmt.Fprintf(l.w, "%s %s\n", Clock(now), text)
	return true
}

// text is the end of a line of Step.
func (x *Rebuild) text() string {
	if x == nil {
		return ""
	}
	text := fmt.Sprintf("  rebuilding: %.0f MB left, %.0f MB/s", float64(x.LeftBytes)/1e6, float64(x.BytesPerS)/1e6)
	if x.EndsAfterS > 0 {
		text += ", ends in " + time.Duration(float64(time.Second)*math.Ceil(float64(x.EndsAfterS))).String()
	}
	return text
}

// Advance shows that done units are done. Plain lines are written every few seconds.
func (l *Live) Advance(done int64) {
	text := l.unit
	if l.total > 0 || done > 0 {
		text += " " + l.position(done) + l.eta(done)
	}
	if l.bar != nil {
		l.bar.Describe(text)
		_ = l.bar.Set64(done)
		return
	}
	now := time.Now()
	if now.Sub(l.start) < advanceEvery || now.Sub(l.shown) < advanceEvery {
		return
	}
	l.shown = now
	fmt.Fprintf(l.w, "%s %s\n", Clock(now), text)
}

// Line writes a permanent line.
func (l *Live) Line(format string, args ...any) {
	if l.bar != nil {
		_ = l.bar.Clear()
		fmt.Fprintf(l.w, format+"\n", args...)
		return
	}
	fmt.Fprintf(l.w, "%s %s\n", Clock(time.Now()), fmt.Sprintf(format, args...))
}

// Close removes the live line.
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

// eta returns the remaining time at the mean speed since the start. It is empty after a loss that took the run back
// before its start.
func (l *Live) eta(done int64) string {
	if l.total <= 0 || done <= l.first || done >= l.total {
		return ""
	}
	left := time.Duration(float64(time.Since(l.start)) / float64(done-l.first) * float64(l.total-done))
	return "  ETA " + left.Round(time.Second).String()
}

// Thousands returns n with a comma between thousands.
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
