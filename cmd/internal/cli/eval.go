package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/train"
)

type evalCmd struct {
	Path   string   `arg:"" name:"config" complete:"config" help:"The run config, a TOML file; or, without --model, a run's output folder, a checkpoint, a folder of checkpoints or an exported model, with config.toml of its run beside or above it."`
	Model  string   `placeholder:"DIR|FILE" help:"A run's output folder, a checkpoint, a folder of checkpoints, or an exported model."`
	Data   []string `sep:"none" placeholder:"FILE" help:"Evaluate on this file in place of those of data.eval (repeatable)."`
	Set    []string `name:"set" sep:"none" complete:"key" placeholder:"KEY=VALUE" help:"Override a config key (repeatable)."`
	Device string   `placeholder:"auto|cpu|cuda" help:"Override job.device."`
}

// loadConfig loads the config that is named, or that of the model: for --data its own, if it holds one, else config.toml of
// its run.
func (c *evalCmd) loadConfig() (cfg *config.Config, err error) {
	sets := configFlags{fileFlags: fileFlags{Set: c.Set}, Device: c.Device}.allSets()
	info, staterr := os.Stat(c.Path)
	isModel := staterr == nil && (info.IsDir() || info.Mode().IsRegular() && filepath.Ext(c.Path) != ".toml")
	switch {
	case c.Model != "":
		cfg, err = config.Load(c.Path, sets)
	case isModel:
		c.Model = c.Path
		if len(c.Data) > 0 && len(c.Set) == 0 {
			cfg, err = c.describedConfig()
		}
		if cfg == nil && err == nil {
			cfg, err = loadModelConfig(c.Path, "", sets, "name the run config, and the model by --model, or only rows by --data")
		}
	default:
		return nil, errUsage(c.Path + ": names no model; name one by --model")
	}
	if err != nil || len(c.Data) == 0 {
		return cfg, err
	}
	cfg.Data.Eval = nil
	for _, name := range c.Data {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		cfg.Data.Eval = append(cfg.Data.Eval, path)
	}
	return cfg, nil
}

// describedConfig returns the config that the model holds, nil if it has none.
func (c *evalCmd) describedConfig() (*config.Config, error) {
	from, err := findModel(c.Path)
	if err != nil {
		return nil, err
	}
	cfg, recipe, err := readDescription(from)
	if cfg == nil || err != nil {
		return nil, err
	}
	if recipe.HasNames() {
		cfg.Data.Format = formatOfData(c.Data[0], cfg.Data.Format)
	}
	cfg.Job.Out = "" // a folder that exists for the evaluation
	switch c.Device {
	case "":
	case "auto", "cpu", "cuda":
		cfg.Job.Device = c.Device
	default:
		return nil, errUsage(fmt.Sprintf("--device %s: not one of auto, cpu, cuda", c.Device))
	}
	return cfg, nil
}

// Run evaluates.
func (c *evalCmd) Run(a *app) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if cfg.Job.Out == "" {
		if cfg.Job.Out, err = os.MkdirTemp("", "ecrec-eval-"); err != nil { // text is converted there
			return err
		}
		defer os.RemoveAll(cfg.Job.Out)
	}
	if len(cfg.Data.Eval) == 0 {
		return errUsage(c.Path + ": data.eval names no file; list the files to evaluate on")
	}
	from, err := findModel(c.Model)
	if err != nil {
		return err
	}
	if from.file != "" {
		f, err := safetensors.Open(from.file)
		if err != nil {
			return fmt.Errorf("--model: %w", err)
		}
		f.Close()
	}
	convert := a.newBars()
	cfg.Model.InitFrom = from.file
	recipe, err := findRecipe(c.Model, from, cfg)
	if err != nil {
		return err
	}
	result, err := train.Run(env.Real(), cfg, train.Options{
		Stop: a.stop.isRequested, Observer: silent{out: a.out}, Progress: convert.showProgress, EvalOnly: true, Resume: from.checkpoint, Recipe: recipe,
	})
	convert.endBars()
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
	fmt.Fprintf(a.out, "logloss %.6f\nAUC     %s\n", e.Logloss, formatAUC(e.AUC))
	return nil
}

// silent prints only checkpoints that cannot be used.
type silent struct {
	unobserved
	out io.Writer
}

func (silent) Started(train.Info) error { return nil }

func (s silent) SkippedCheckpoint(_ string, err error) { fmt.Fprintln(s.out, skipped(err)) }
