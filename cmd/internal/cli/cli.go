package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// root is the command line as kong reads it.
type root struct {
	Init       initCmd       `cmd:"" help:"Write a run config for a CSV, TSV or Parquet file, with types and transforms of its columns."`
	Train      trainCmd      `cmd:"" help:"Train a model, evaluate it and save it."`
	Plan       planCmd       `cmd:"" help:"Predict the memory, the messages and the time of a step at a number of ranks, before anything is started."`
	Eval       evalCmd       `cmd:"" help:"Compute logloss and AUC of a saved model."`
	Predict    predictCmd    `cmd:"" help:"Score rows with a saved model."`
	Export     exportCmd     `cmd:"" help:"Write the model of a run or a checkpoint as a file: safetensors, ONNX, or a Triton model repository."`
	Inspect    inspectCmd    `cmd:"" help:"Describe a checkpoint or a model file, and verify its checksums."`
	Audit      auditCmd      `cmd:"" help:"Compute a run again, compare the digest of every commit, and name the first difference."`
	Follow     followCmd     `cmd:"" help:"Keep a model up to date with the stream of a run (stream.to): compare its digest at every commit, save checkpoints."`
	Status     statusCmd     `cmd:"" help:"Show the state of a run: step, losses, checkpoint, digest."`
	Runs       runsCmd       `cmd:"" help:"Compare the runs in a folder."`
	Sweep      sweepCmd      `cmd:"" help:"Train a config with every combination of some values, one run after another."`
	Report     reportCmd     `cmd:"" help:"Write a report of a run as one HTML page: curves, losses, config."`
	Data       dataCmd       `cmd:"" help:"Generate, convert and measure data."`
	Bench      benchCommands `cmd:"" help:"Run a benchmark, or draw the figures of papers."`
	Sim        simCmd        `cmd:"" help:"Run simulated clusters with faults and check that the result stays bit-identical."`
	Slurm      slurmCmd      `cmd:"" help:"Print a batch script (sbatch) that trains under Slurm."`
	K8s        k8sCmd        `cmd:"" name:"k8s" help:"Print manifests (JobSet) that train on Kubernetes."`
	Doctor     doctorCmd     `cmd:"" help:"Check what this machine offers and what ecrec would choose."`
	Completion completionCmd `cmd:"" help:"Print a shell completion script."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:""`
	Man        manCmd        `cmd:"" hidden:""`
	Version    versionCmd    `cmd:"" help:"Print the version, the build, and the kernels and libraries found."`
}

// helpShown is the panic that unwinds after kong has printed help.
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
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(printHelp))
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if listed := (chaosListed{}); errors.As(err, &listed) {
		fmt.Fprintln(out, listed)
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(errw, "ecrec: %s; see ecrec --help\n", oneLine(err))
		return exitBad
	}
	a := &app{args: args, out: out, errw: errw, stop: newStopper(errw)}
	defer a.stop.restoreSignals()
	defer a.releaseOutput()
	err = ctx.Run(a)
	code = a.exitCode(err)
	var ended jobEnded
	switch world := a.stop.world; {
	case errors.As(err, &ended): // the reason has been printed
		return int(ended)
	case world != nil: // the supervisors print the error
		if err != nil {
			a.reportTo(world, err)
		}
	case err != nil:
		fmt.Fprintln(errw, "ecrec: "+oneLine(err))
	}
	return code
}
