package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/internal/safetensors"
)

type exportCmd struct {
	Run_ string `arg:"" name:"run" help:"A run's output folder, a checkpoint, or a folder of checkpoints."`
	To   string `required:"" placeholder:"FILE" help:"The safetensors file to write."`
}

// Run writes a model, checked, to a file of its own.
func (c *exportCmd) Run(a *app) (err error) {
	from, err := findModel(c.Run_)
	if err != nil {
		return err
	}
	if from.file != "" {
		return c.copyFile(a, from.file)
	}
	ck, err := findCheckpoint(a.out, from.checkpoint)
	if err != nil {
		return err
	}
	return c.write(a, ck.Specs(), ck.WriteTensors)
}

// copyFile writes the tensors of a model file.
func (c *exportCmd) copyFile(a *app, path string) error {
	in, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	var specs []safetensors.Spec
	for _, t := range in.Tensors() {
		specs = append(specs, t.Spec)
	}
	return c.write(a, specs, func(out io.Writer) error {
		for _, t := range in.Tensors() {
			if _, err := io.Copy(out, io.NewSectionReader(t, 0, t.Size())); err != nil {
				return err
			}
		}
		return nil
	})
}

// write puts tensors in place whose data comes from one function.
func (c *exportCmd) write(a *app, specs []safetensors.Spec, data func(io.Writer) error) error {
	if err := report.CheckDir(filepath.Dir(c.To), "--to"); err != nil {
		return err
	}
	out, err := safetensors.Create(c.To, specs)
	if err != nil {
		return err
	}
	defer out.Abort()
	var size int64
	for _, s := range specs {
		n, err := s.Bytes()
		if err != nil {
			return err
		}
		size += n
	}
	live := report.NewLive(a.out, "export", size)
	defer live.Close()
	if err := data(&countTo{w: out, app: a, live: live}); err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	live.Line("%s: %d tensors, %s bytes", c.To, len(specs), report.Thousands(size))
	return nil
}

// countTo shows progress and ends the copy when asked to stop.
type countTo struct {
	w    io.Writer
	app  *app
	live *report.Live
	done int64
}

func (c *countTo) Write(p []byte) (int, error) {
	if err := c.app.stop.check(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	c.done += int64(n)
	c.live.Advance(c.done)
	return n, err
}

// modelAt is where a model lies: one of both.
type modelAt struct {
	file       string // safetensors
	checkpoint string // a folder of one, or of several
}

// findModel finds the model of a run's folder, a checkpoint, or a file.
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
	return modelAt{}, errUsage(fmt.Sprintf("%s: no model is there; name the output folder of a finished run (job.save_model = true), a checkpoint, or a safetensors file", path))
}
