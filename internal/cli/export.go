package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/internal/safetensors"
)

type exportCmd struct {
	Run_ string `arg:"" name:"run" help:"A run's output folder."`
	To   string `required:"" placeholder:"FILE" help:"The safetensors file to write."`
}

// Run copies the model of a run, checked, to a file of its own.
func (c *exportCmd) Run(a *app) (err error) {
	from, err := findModel(c.Run_)
	if err != nil {
		return err
	}
	in, err := safetensors.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	var specs []safetensors.Spec
	var size int64
	for _, t := range in.Tensors() {
		specs = append(specs, t.Spec)
		size += t.Size()
	}
	if err := report.CheckDir(filepath.Dir(c.To), "--to"); err != nil {
		return err
	}
	out, err := safetensors.Create(c.To, specs)
	if err != nil {
		return err
	}
	defer out.Abort()
	live := report.NewLive(a.out, "export", size)
	defer live.Close()
	var done int64
	for _, t := range in.Tensors() {
		n, err := io.Copy(countTo{out, a, live, done}, io.NewSectionReader(t, 0, t.Size()))
		if err != nil {
			return err
		}
		done += n
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

func (c countTo) Write(p []byte) (int, error) {
	if err := c.app.stop.check(); err != nil {
		return 0, err
	}
	c.live.Advance(c.done + int64(len(p)))
	return c.w.Write(p)
}

// findModel is the model file of a run's folder, or the file itself.
func findModel(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, modelFile)
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", errUsage(fmt.Sprintf("%s: no model is there; name the output folder of a finished run (job.save_model = true), or a safetensors file", path))
	}
	return path, err
}
