package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/predict"
)

type predictCmd struct {
	Model  string   `arg:"" complete:"dir" help:"A run's output folder, a checkpoint, a folder of checkpoints, or an exported model."`
	Data   []string `required:"" sep:"none" placeholder:"FILE" help:"The rows to score (repeatable); '-' is the standard input. The label may be missing."`
	To     string   `default:"-" placeholder:"FILE" help:"The file to write, CSV or .parquet; '-' is CSV to the standard output."`
	Keep   []string `placeholder:"COLUMN,..." help:"Columns to write before the score, as they are."`
	Config string   `complete:"config" placeholder:"FILE" help:"The run config. Default: config.toml of the run that the model belongs to."`
	Set    []string `name:"set" sep:"none" complete:"key" placeholder:"KEY=VALUE" help:"Override a config key (repeatable)."`

	OnError   string `enum:"fail,skip" default:"fail" help:"Malformed rows: fail ends with the first one, skip leaves them out and counts them."`
	Threads   int    `placeholder:"N" help:"Number of threads. Default: one per core."`
	Overwrite bool   `help:"Replace an existing file of the name in --to."`
}

// stdio is the name of the standard input and output.
const stdio = data.Stdin

// Run scores rows.
func (c *predictCmd) Run(a *app) error {
	from, err := findModel(c.Model)
	if err != nil {
		return err
	}
	if from.checkpoint != "" {
		ck, err := findCheckpoint(a.errw, from.checkpoint)
		if err != nil {
			return err
		}
		from.checkpoint = ck.Path
	}
	cfg, recipe, err := c.describeModel(from)
	if err != nil {
		return err
	}
	if recipe.HasNames() {
		cfg.Data.Format = formatOfData(c.Data[0], cfg.Data.Format)
	}
	if err := c.checkFiles(cfg); err != nil {
		return err
	}
	if len(c.Data) > 1 || c.Data[0] != stdio {
		if c.Data, err = data.ListFiles(env.Real(), c.Data); err != nil {
			return err
		}
	}
	o := predict.Options{Env: env.Real(), Data: cfg.DataOptions(true), Keep: c.Keep, Parquet: c.toParquet(),
		SkipBad: c.OnError == "skip", Threads: c.Threads,
		Stop: a.stop.err, Skipped: func(err error) { fmt.Fprintln(a.errw, "skipped: "+oneLine(err)) }}
	o.Recipe, o.Data.Recipe, o.Data.Split = recipe, recipe, data.Split{}
	o.Data.Env, o.Data.Files, o.Data.SkipBad = o.Env, c.Data, o.SkipBad
	if o.Data.RecordDir, err = os.MkdirTemp("", "ecrec-predict-"); err != nil { // Parquet is converted there
		return err
	}
	defer os.RemoveAll(o.Data.RecordDir)
	if o.Threads < 1 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	m, err := predict.Load(o.Env, cfg, from.file, from.checkpoint)
	if err != nil {
		return err
	}
	defer m.Close()
	result, err := c.writeScores(a, m, o)
	if err != nil {
		return err
	}
	c.printResult(a.errw, result)
	return nil
}

// describeModel returns the config of a model, and the recipe of its data. Both are read from the
// model, unless --config or --set is given or it has none. A recipe that was counted from the training
// data is in the model file, or in the folder of the run.
func (c *predictCmd) describeModel(from modelAt) (cfg *config.Config, recipe *data.Recipe, err error) {
	if c.Config == "" && len(c.Set) == 0 {
		if cfg, recipe, err = readDescription(from); err != nil {
			return nil, nil, err
		}
	}
	if cfg == nil {
		if cfg, err = loadModelConfig(c.Model, c.Config, c.Set, "name the run config by --config"); err != nil {
			return nil, nil, err
		}
	}
	if recipe == nil || recipe.Source == "" {
		if recipe, err = findRecipe(c.Model, from, cfg); err != nil {
			return nil, nil, err
		}
	}
	if recipe == nil {
		if recipe, err = data.NewRecipe(cfg.DataOptions(false)); err != nil {
			return nil, nil, err
		}
	}
	if !recipe.Complete() {
		return nil, nil, errUsage(fmt.Sprintf("%s: tables or transforms were counted from the training data, and %s of its run is not beside it; score with the folder of the run",
			c.Model, report.RecipeFile))
	}
	if cfg.Model.Tables.IsCounted() {
		cfg = cfg.Resolve(recipe)
	}
	return cfg, recipe, nil
}

// formatOfData returns the format of a file of rows: that of the training data, unless the name of the file
// has the ending of another format whose columns have names.
func formatOfData(name, trained string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch ending := filepath.Ext(name); {
	case ending == ".csv" || name == stdio:
		return data.FormatCSV
	case ending == parquetEnding:
		return data.FormatParquet
	case ending == ".rec":
		return data.FormatRecord
	}
	return trained
}

// checkFiles checks the names of the files.
func (c *predictCmd) checkFiles(cfg *config.Config) error {
	if cfg.ReadsTopic() {
		columns := cfg.DataOptions(false).CSV
		cfg.Data.Format = data.MessageFormat(&columns)
	}
	format, ok := data.FindFormat(cfg.Data.Format)
	if !ok || format.Endless {
		return errUsage(fmt.Sprintf("data.format = %q reads no files; name the format of --data by --set data.format=csv and the keys of [data.csv]", cfg.Data.Format))
	}
	text := data.HasRows(cfg.Data.Format)
	for i, name := range c.Data {
		switch {
		case name == stdio && (!text || cfg.Data.Format == data.FormatParquet):
			return errUsage(fmt.Sprintf("--data -: %s is not read from the standard input; name a file", cfg.Data.Format))
		case name == stdio && len(c.Data) > 1:
			return errUsage("--data -: the standard input is the only input; remove the other files, or cat them")
		case name != stdio:
			path, err := filepath.Abs(name)
			if err != nil {
				return err
			}
			c.Data[i] = path
		}
	}
	if !text && len(c.Keep) > 0 {
		return errUsage(fmt.Sprintf("--keep: columns of %s have no names; use csv", cfg.Data.Format))
	}
	for i, name := range c.Keep {
		if slices.Contains(c.Keep[:i], name) {
			return errUsage(fmt.Sprintf("--keep %s: the column is named twice; name it once", name))
		}
	}
	if c.To == stdio {
		return nil
	}
	to := target{path: c.To, command: "predict", writes: "CSV, or Parquet to names that end in .parquet", ending: ".csv",
		overwrite: c.Overwrite}
	if c.toParquet() {
		to.ending = parquetEnding
	}
	return to.validate()
}

const parquetEnding = ".parquet"

// toParquet reports whether the scores are written as Parquet.
func (c *predictCmd) toParquet() bool { return filepath.Ext(c.To) == parquetEnding }

// writeScores writes the scores to the standard output, or to a file that appears when it is complete.
func (c *predictCmd) writeScores(a *app, m *predict.Model, o predict.Options) (predict.Result, error) {
	if c.To == stdio {
		return m.Run(o, a.out)
	}
	f, err := atomicfile.Create(c.To)
	if err != nil {
		return predict.Result{}, err
	}
	defer f.Abort()
	result, err := m.Run(o, f)
	if err != nil {
		return result, err
	}
	return result, f.Commit()
}

func (c *predictCmd) printResult(w io.Writer, r predict.Result) {
	to := c.To
	if to == stdio {
		to = "stdout"
	}
	fmt.Fprintf(w, "%s: %s\n", to, report.Count(r.Rows, "score"))
	if r.Skipped > 0 {
		fmt.Fprintf(w, "skipped %s (--on-error skip)\n", report.Count(r.Skipped, "malformed row"))
	}
	if r.Labelled > 0 {
		fmt.Fprintf(w, "logloss %.6f\nAUC     %s\n", r.Logloss, formatAUC(r.AUC))
	}
	if r.Labelled > 0 && r.Labelled < r.Rows {
		fmt.Fprintf(w, "of the %s with a label\n", report.Count(r.Labelled, "row"))
	}
}

// loadModelConfig returns the config of a model: the named one, or config.toml of the run whose
// folder holds the model. Sets override its keys. The remedy is that of a folder without config.toml.
func loadModelConfig(model, named string, sets []string, remedy string) (*config.Config, error) {
	if named == "" {
		var err error
		if named, err = findConfig(model, remedy); err != nil {
			return nil, err
		}
	}
	return config.Load(named, sets)
}

// findConfig returns config.toml of the run that a model belongs to: of its folder, or of the ones
// above it, as for a checkpoint in job.out/checkpoints.
func findConfig(model, remedy string) (string, error) {
	path, err := filepath.Abs(model)
	if err != nil {
		return "", err
	}
	const levels = 3
	for range levels {
		file := filepath.Join(path, "config.toml")
		if _, err := os.Stat(file); err == nil {
			return file, nil
		} else if !errors.Is(err, os.ErrNotExist) && !strings.Contains(err.Error(), "not a directory") {
			return "", err
		}
		path = filepath.Dir(path)
	}
	return "", errUsage(fmt.Sprintf("%s: no config.toml of its run is beside it; %s", model, remedy))
}
