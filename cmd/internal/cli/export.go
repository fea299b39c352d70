package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/export"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/onnx"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/train/modelfile"
)

type exportCmd struct {
	Run_ string `arg:"" name:"run" complete:"dir" help:"A run's output folder, a checkpoint, or a folder of checkpoints."`
	To   string `required:"" placeholder:"FILE" help:"The file to write: safetensors, or ONNX if the name ends in .onnx. triton:DIR is a model repository for the Triton Inference Server. checkpoint:DIR is a folder for a full checkpoint."`

	Overwrite bool `help:"Replace an existing file of that name. Without this flag only a model exported by ecrec is replaced."`
}

// Run writes a model to a file, with checksums verified.
func (c *exportCmd) Run(a *app) (err error) {
	from, err := findModel(c.Run_)
	if err != nil {
		return err
	}
	if dir, ok := strings.CutPrefix(c.To, "checkpoint:"); ok {
		return c.consolidate(a, from, dir)
	}
	to, err := c.findFormat()
	if err != nil {
		return err
	}
	if from.file != "" {
		in, err := safetensors.Open(from.file)
		if err != nil {
			return err
		}
		defer in.Close()
		return c.writeModel(a, to, modelOf(in))
	}
	ck, err := findCheckpoint(a.out, from.checkpoint)
	if err != nil {
		return err
	}
	digest, bad := ck.Verify()
	if len(bad) > 0 {
		return bad[0]
	}
	recipe, err := c.findDataRecipe(ck)
	if err != nil {
		return err
	}
	about := modelfile.DescribeRun(ck.Run, ck.Step, digest.String(), recipe)
	return c.writeModel(a, to, export.Model{Metadata: about, Tensors: ck.Specs(), Write: ck.WriteTensors})
}

// consolidate writes a full checkpoint to a folder.
func (c *exportCmd) consolidate(a *app, from modelAt, dir string) error {
	if dir == "" {
		return errUsage("--to checkpoint:DIR: name a folder for the checkpoint")
	}
	if at := filepath.Join(c.Run_, "checkpoints"); from.file != "" && checkpoint.At(at) {
		from.checkpoint = at // those of a run, beside its model
	}
	if from.checkpoint == "" {
		return errUsage(fmt.Sprintf("%s: a model file has no optimizer state for a checkpoint; name a checkpoint, or a folder of checkpoints",
			c.Run_))
	}
	ck, err := findCheckpoint(a.out, from.checkpoint)
	if err != nil {
		return err
	}
	if to := filepath.Join(dir, filepath.Base(ck.Path)); checkpoint.At(to) {
		return errUsage(to + " exists; name another folder")
	}
	path, err := ck.Consolidate(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s: step %s, all rows\n", path, report.Thousands(ck.Step))
	return nil
}

// findDataRecipe returns the recipe of the data of a checkpoint's run, nil if it follows from the config or is lost.
func (c *exportCmd) findDataRecipe(ck *checkpoint.Checkpoint) (*data.Recipe, error) {
	if ck.Run == nil {
		return nil, nil
	}
	cfg, err := ck.Run.Recipe.Config()
	if err != nil {
		return nil, nil // of another version: the file has no recipe then
	}
	cfg.Job.Out = c.Run_
	return findRecipe(ck.Path, modelAt{checkpoint: ck.Path}, cfg)
}

// modelOf is the model of a file. Its checksum is verified at the end.
func modelOf(in *safetensors.File) export.Model {
	m := export.Model{Metadata: in.Metadata, Write: func(out io.Writer) error {
		for _, t := range in.Tensors() {
			if _, err := io.Copy(out, in.Reader(t)); err != nil {
				return err
			}
		}
		return in.Verify()
	}}
	for _, t := range in.Tensors() {
		m.Tensors = append(m.Tensors, t.Spec)
	}
	return m
}

// exportFormat writes a model in one format.
type exportFormat struct {
	path  string // of the file that the command reports
	graph bool   // it holds the computation, which follows from the config in the metadata
	write func(path string, m export.Model) error
}

// findFormat returns the format that --to names, if the command may write there.
func (c *exportCmd) findFormat() (exportFormat, error) {
	to := target{path: c.To, command: "export", writes: "safetensors", ending: ".safetensors", overwrite: c.Overwrite, ours: isExport}
	format := exportFormat{path: c.To, write: writeTensors}
	dir, triton := strings.CutPrefix(c.To, "triton:")
	switch {
	case triton:
		name := filepath.Base(filepath.Clean(dir))
		if dir == "" || strings.Trim(name, ".") == "" {
			return format, errUsage("--to triton:DIR: name the folder of the model, whose last part is the model's name, as in triton:models/ctr")
		}
		to.path = export.TritonModel(dir)
		if err := os.MkdirAll(filepath.Dir(to.path), 0o777); err != nil {
			return format, err
		}
		format = exportFormat{path: to.path, graph: true, write: func(_ string, m export.Model) error { return export.WriteTriton(dir, m) }}
		fallthrough
	case filepath.Ext(c.To) == ".onnx":
		to.writes, to.ending, to.ours = "ONNX", ".onnx", onnx.IsOwn
		if !triton {
			format.graph, format.write = true, export.WriteONNX
		}
	}
	return format, to.validate()
}

// writeModel writes a model in a format, and shows progress.
func (c *exportCmd) writeModel(a *app, to exportFormat, m export.Model) error {
	if to.graph {
		if err := describeGraph(&m, c.Run_); err != nil {
			return err
		}
	}
	var size int64
	for _, s := range m.Tensors {
		n, err := s.Bytes()
		if err != nil {
			return err
		}
		size += n
	}
	live := report.NewLive(a.out, "export", size)
	defer live.Close()
	data := m.Write
	m.Write = func(out io.Writer) error { return data(&countTo{w: out, app: a, live: live}) }
	if err := to.write(to.path, m); err != nil {
		return err
	}
	live.Close()
	fmt.Fprintf(a.out, "%s: %s, %s\n", to.path, report.Count(int64(len(m.Tensors)), "tensor"), report.Count(size, "byte"))
	return nil
}

// describeGraph sets the config and the features of a model, which follow from its metadata. from names the model.
func describeGraph(m *export.Model, from string) error {
	cfg, err := modelfile.ConfigOf(m.Metadata)
	if err != nil {
		return errUsage(fmt.Sprintf("%s: %v; export it as safetensors", from, err))
	}
	recipe, err := modelfile.RecipeOf(m.Metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	m.Config, m.Features = cfg.ModelConfig(), featuresOf(cfg, recipe)
	return nil
}

// featuresOf lists the features of a model. The recipe may be nil: then the config has no columns.
func featuresOf(cfg *config.Config, recipe *data.Recipe) []export.Feature {
	features, means := make([]export.Feature, cfg.Model.Features()), cfg.Model.Means()
	for f := range features {
		to := &features[f]
		to.Bag = len(cfg.Data.Hots.IDs) > 0
		if recipe != nil && f < len(recipe.Categorical) {
			c := &recipe.Categorical[f]
			to.Bag, to.Weighted = to.Bag || c.Separator != "", c.Weighted
		}
		to.Mean = to.Bag && means != nil && means[f] == 1
	}
	return features
}

// writeTensors writes a safetensors file.
func writeTensors(path string, m export.Model) error {
	out, err := safetensors.Create(path, m.Tensors, m.Metadata)
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := m.Write(out); err != nil {
		return err
	}
	return out.Commit()
}

// countTo is a Writer that shows progress. It fails once a stop is requested.
type countTo struct {
	w    io.Writer
	app  *app
	live *report.Live
	done int64
}

func (c *countTo) Write(p []byte) (int, error) {
	if err := c.app.stop.err(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	c.done += int64(n)
	c.live.Advance(c.done)
	return n, err
}

// modelAt is the location of a model. One of the fields is set.
type modelAt struct {
	file       string // safetensors
	checkpoint string // a folder of one, or of several
}

// findModel returns the location of the model in a run's folder, a checkpoint, or a file.
func findModel(path string) (modelAt, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return modelAt{file: path}, nil
	}
	if err == nil {
		file := filepath.Join(path, report.ModelFile)
		if _, err = os.Stat(file); err == nil {
			return modelAt{file: file}, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return modelAt{}, err
	}
	if checkpoint.At(path) {
		return modelAt{checkpoint: path}, nil
	}
	return modelAt{}, errUsage(fmt.Sprintf("%s: no model found; name the output folder of a finished run (job.save_model = true), a checkpoint, or a safetensors file", path))
}
