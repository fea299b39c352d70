package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

type evalCmd struct {
	configFlags
	Model string `required:"" placeholder:"DIR|FILE" help:"A run's output folder, a checkpoint, a folder of checkpoints, or an exported model."`
}

// Run evaluates.
func (c *evalCmd) Run(a *app) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if len(cfg.Data.Eval) == 0 {
		return errUsage(c.Config + ": data.eval names no file; list what to evaluate on")
	}
	from, err := findModel(c.Model)
	if err != nil {
		return err
	}
	convert := a.progress()
	cfg.Model.InitFrom = from.file
	result, err := train.Run(env.Real(), cfg, train.Options{
		Stop: a.stop.asked, Observer: silent{a.out}, Progress: convert.show, EvalOnly: true, Resume: from.checkpoint,
	})
	convert.close()
	if errors.Is(err, train.ErrStopped) {
		return errStopped
	}
	if err != nil {
		return err
	}
	if len(result.Eval) == 0 {
		return errors.New("the evaluation gave no result")
	}
	e := result.Eval[len(result.Eval)-1]
	fmt.Fprintf(a.out, "logloss %.6f\nAUC     %s\n", e.Logloss, auc(e.AUC))
	return nil
}

// silent is an observer that tells of checkpoints that cannot be used, only.
type silent struct{ out io.Writer }

func (silent) Started(train.Info) error          { return nil }
func (silent) Step(train.StepInfo)               {}
func (silent) Checkpointed(int64, string, error) {}
func (silent) Evaluated(train.Eval)              {}
func (silent) Warned(string)                     {}
func (silent) Recovered(train.Recovery)          {}
func (s silent) PassedOver(_ string, err error) {
	fmt.Fprintf(s.out, "passed over %s\n", oneLine(err))
}
