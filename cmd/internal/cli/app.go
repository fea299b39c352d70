package cli

import (
	"errors"
	"io"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/launcher/place"
)

// The exit codes that are not a signal's.
const (
	exitDone   = 0
	exitFailed = 1
	exitBad    = 2
)

// app is the context of a command.
type app struct {
	args      []string
	out, errw io.Writer
	stop      *stopper
	claimed   string // the folder that --numbered created
}

// errUsage is the error for a command line that cannot be executed.
type errUsage string

func (e errUsage) Error() string { return string(e) }

// exitCode returns the exit code for the error of a command.
func (a *app) exitCode(err error) int {
	var usage errUsage
	switch {
	case errors.Is(err, errStopped):
		return a.stop.exitCode()
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.Is(err, config.ErrInvalid), errors.Is(err, data.ErrInput),
		errors.Is(err, report.ErrOutput), errors.Is(err, safetensors.ErrFormat),
		errors.Is(err, bench.ErrSetting), errors.Is(err, checkpoint.ErrUnusable), errors.Is(err, place.ErrPlace):
		return exitBad
	}
	return exitFailed
}
