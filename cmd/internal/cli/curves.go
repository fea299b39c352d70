package cli

import (
	"fmt"
	"path/filepath"

	"github.com/ecrec/ecrec/cmd/internal/tensorboard"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

// curves writes loss, speed and evaluations for TensorBoard, if metrics.tensorboard is set.
type curves struct {
	unobserved
	cfg   *config.Config
	env   env.Env
	warn  func(string)
	board *tensorboard.Writer // nil: not open
	since interval
}

// openBoard begins a file in the folder of the run's lineage: steps that are replayed after a loss
// then have the values of their first run.
func (c *curves) openBoard(i train.Info, process int) (err error) {
	if !c.cfg.Metrics.TensorBoard || i.Steps == 0 && !i.Endless {
		return nil
	}
	dir := filepath.Join(c.cfg.Job.Out, "tensorboard", i.Run.Lineage.Short())
	c.board, err = tensorboard.Create(dir, fmt.Sprintf("process-%d", process))
	return err
}

func (c *curves) closeBoard() {
	_ = c.board.Close() // each value was checked
	c.board = nil
}

// Step writes the figures of an interval.
func (c *curves) Step(i train.StepInfo) {
	if c.board == nil {
		return
	}
	c.since.addStep(i)
	if !isDue(i, c.cfg.Train.LogEvery) {
		return
	}
	m := c.since.dueAfter(i, c.cfg.Train.LogEvery)
	c.writeScalars(i.Step, scalar{"train/loss", float64(m.Loss)}, scalar{"train/samples_per_s", float64(m.SamplesPerS)},
		scalar{"train/step_ms", float64(m.StepMS)})
}

// Evaluated writes an evaluation.
func (c *curves) Evaluated(e train.Eval) {
	c.writeScalars(e.Step, scalar{"eval/logloss", e.Logloss}, scalar{"eval/auc", e.AUC})
}

// scalar is a value that TensorBoard draws under a tag.
type scalar struct {
	tag   string
	value float64
}

// writeScalars writes the values after a step.
func (c *curves) writeScalars(step int64, values ...scalar) {
	if c.board == nil {
		return
	}
	err := c.env.Do("tensorboard", func() error {
		for _, v := range values {
			if err := c.board.Scalar(step, v.tag, v.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.warn(fmt.Sprintf("%s: cannot write for TensorBoard (%v); training continues without", c.cfg.Job.Out, err))
	}
}
