package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/launcher"
)

// The exit codes that are not a signal's.
const (
	exitDone   = 0
	exitFailed = 1
	exitBad    = 2
)

// root is the command line as kong reads it.
type root struct {
	Train   trainCmd   `cmd:"" help:"Train a model, evaluate it and save it."`
	Eval    evalCmd    `cmd:"" help:"Compute logloss and AUC of a saved model."`
	Export  exportCmd  `cmd:"" help:"Write the model of a run or a checkpoint as a safetensors file."`
	Inspect inspectCmd `cmd:"" help:"Tell what a checkpoint holds and check all of it."`
	Data    dataCmd    `cmd:"" help:"Make, convert and measure data."`
	Bench   benchCmd   `cmd:"" help:"Run a benchmark; 'bench list' names them."`
	Sim     simCmd     `cmd:"" help:"Run simulated clusters, with faults, and check that none changes a bit of the result."`
	Slurm   slurmCmd   `cmd:"" help:"Print a batch script (sbatch) that trains under Slurm."`
	Doctor  doctorCmd  `cmd:"" help:"Say what this machine offers and what ecrec would choose."`
}

// app is what every command works with.
type app struct {
	args      []string
	out, errw io.Writer
	stop      *stopper
}

// errUsage is a command line that asks for nothing that can be done.
type errUsage string

func (e errUsage) Error() string { return string(e) }

// helpShown unwinds from kong's help, which has been printed.
type helpShown int

// Main runs one command line and returns the exit code.
func Main(args []string, out, errw io.Writer) (code int) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case helpShown:
			code = int(p)
		default:
			panic(p)
		}
	}()
	var r root
	parser := kong.Must(&r, kong.Name("ecrec"),
		kong.Description("Trains deep-learning recommendation models, exactly: same config and data, same bits."),
		kong.Writers(out, errw), kong.Exit(func(code int) { panic(helpShown(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if listed := (chaosListed{}); errors.As(err, &listed) {
		fmt.Fprintln(out, listed)
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(errw, "ecrec: %v; see ecrec --help\n", err)
		return exitBad
	}
	a := &app{args: args, out: out, errw: errw, stop: newStopper()}
	defer a.stop.close()
	err = ctx.Run(a)
	code = a.exitCode(err)
	var ended jobEnded
	switch world := a.stop.world; {
	case errors.As(err, &ended): // and said why
		return int(ended)
	case world != nil: // the job's supervisors speak
		if err != nil {
			world.Report(launcher.Report{Code: code, Error: oneLine(err), Stopped: errors.Is(err, errStopped), Follows: follows(err)})
		}
	case err != nil:
		fmt.Fprintln(errw, "ecrec: "+oneLine(err))
	}
	return code
}

func (a *app) exitCode(err error) int {
	var usage errUsage
	switch {
	case errors.Is(err, errStopped):
		return a.stop.exitCode()
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.Is(err, config.ErrInvalid), errors.Is(err, data.ErrInput),
		errors.Is(err, report.ErrOutput), errors.Is(err, safetensors.ErrFormat),
		errors.Is(err, bench.ErrSetting), errors.Is(err, checkpoint.ErrUnusable), errors.Is(err, launcher.ErrPlace):
		return exitBad
	}
	return exitFailed
}

// oneLine is an error's text without line ends.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// configFlags are what every command that reads a config takes.
type configFlags struct {
	Config string   `arg:"" help:"The run config, a TOML file."`
	Set    []string `name:"set" sep:"none" placeholder:"KEY=VALUE" help:"Override a config key; repeatable."`
	Device string   `placeholder:"auto|cpu|cuda" help:"Override job.device."`
}

func (f configFlags) load() (*config.Config, error) { return config.Load(f.Config, f.sets()) }

// sets are all settings that override the file's.
func (f configFlags) sets() []string {
	if f.Device == "" {
		return f.Set
	}
	return append(f.Set[:len(f.Set):len(f.Set)], "job.device="+f.Device)
}
