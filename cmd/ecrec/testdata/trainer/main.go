// Command trainer trains as ecrec train does, in one process, with nothing but package
// train: so little that it is soon built in yet another way.
//
//	trainer train CONFIG --set KEY=VALUE...
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

func main() {
	if err := run(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run leaves in job.out what ecrec would, as far as it must be the same for all builds.
func run(path string, args []string) error {
	var sets []string
	for i := 1; i < len(args); i += 2 {
		sets = append(sets, args[i])
	}
	cfg, err := config.Load(path, sets)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Job.Out, 0o755); err != nil {
		return err
	}
	r, err := train.Run(env.Real(), cfg, train.Options{
		Observer: silent{}, Stop: func() bool { return false }, SaveTo: filepath.Join(cfg.Job.Out, "model.safetensors")})
	if err != nil {
		return err
	}
	sum := report.Summary{Digest: r.Digest, Steps: int(r.Steps), Eval: []report.Eval{}}
	for _, x := range r.TrainLoss {
		sum.TrainLoss = append(sum.TrainLoss, report.Number(x))
	}
	for _, e := range r.Eval {
		sum.Eval = append(sum.Eval, report.Eval{Step: int(e.Step), LogLoss: report.Number(e.Logloss), AUC: report.Number(e.AUC)})
	}
	text, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cfg.Job.Out, "summary.json"), text, 0o644)
}

// silent observes nothing.
type silent struct{ train.Observer }

func (silent) Started(train.Info) error { return nil }
func (silent) Step(train.StepInfo)      {}
func (silent) Evaluated(train.Eval)     {}
func (silent) Warned(string)            {}
func (silent) Committed(int64, string)  {}
