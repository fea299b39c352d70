package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/ecrec/ecrec/internal/env"
)

// Bench is one benchmark.
type Bench struct {
	Name     string
	Doc      string // one sentence without a full stop, for lists
	Detail   string // further sentences, for help; may be empty
	Settings []Setting
	// Bars are the bounds that its figures must keep; may be empty.
	Bars []Bar
	// Evidence is the kind of the figures that name no other; empty: Measured.
	Evidence Evidence
	// Processes is the default number of processes that measure together; 0: the benchmark
	// runs in one process.
	Processes int

	// measure measures. With Options.Tiny it does the least that exercises everything.
	measure func(out io.Writer, o Options) (*Report, error)
}

// Options are the settings that all benchmarks share.
type Options struct {
	Tiny    bool
	Repeats int // 5 when 0
	// Args are settings of the benchmark, KEY=VALUE. The first of several with one key counts.
	Args []string
	// World is the group of processes, for benchmarks with Processes; nil: this process is
	// alone. Only rank 0 returns a report.
	World *World
	// Program is the path of the ecrec executable that benchmarks of jobs start;
	// empty: the executable of this process.
	Program string
	// Stop reports whether to end early; nil: never.
	Stop func() bool
	// Progress receives how far the run is; nil: nothing does.
	Progress *Progress

	name     string    // of the benchmark that runs
	settings []Setting // of that benchmark
}

func (o Options) programPath() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	return os.Executable()
}

func (o Options) repeats() int {
	switch {
	case o.Tiny:
		return 1
	case o.Repeats > 0:
		return o.Repeats
	}
	return 5
}

// table aligns columns of a report; call Flush at the end.
func table(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
}

// together runs f for each of n goroutines and waits for all.
func together(n int, f func(i int)) {
	e := env.Real()
	done := make([]*env.Event, n)
	for i := range n {
		done[i] = env.NewEvent(e, "bench")
		run := func() { f(i); done[i].Set(nil) }
		if i == n-1 {
			run()
		} else {
			e.Go("bench", run)
		}
	}
	for _, d := range done {
		_ = d.Wait() // set with no error
	}
}

// ErrSetting is wrapped by errors about a benchmark's settings.
var ErrSetting = errors.New("bad setting")

func settingError(format string, args ...any) error {
	return &badSetting{"bench: " + fmt.Sprintf(format, args...)}
}

type badSetting struct{ text string }

func (e *badSetting) Error() string        { return e.text }
func (e *badSetting) Is(target error) bool { return target == ErrSetting }
