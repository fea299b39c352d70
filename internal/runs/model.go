package runs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/train"
)

// Eval scores the config's evaluation data with a model and prints logloss and
// AUC. model is a safetensors file, or a folder that a run has written.
func Eval(cfg *config.Config, model string, w io.Writer) error {
	path, err := modelIn(model)
	if err != nil {
		return err
	}
	if len(cfg.Data.Eval) == 0 {
		return fmt.Errorf("data.eval names no files to evaluate on: %w", config.ErrInvalid)
	}
	cfg.Model.InitFrom = path
	r := &recorder{cfg: cfg, w: w}
	result, err := train.Run(env.Real(), cfg, train.Options{
		EvalOnly: true, Stop: func() bool { return false }, Observer: evalOnly{}, Progress: r.prepare,
	})
	if err != nil {
		return err
	}
	e := result.Eval[0]
	fmt.Fprintf(w, "logloss %.6f\nAUC     %.6f\n", e.Logloss, e.AUC)
	return nil
}

// evalOnly observes a job that has no steps.
type evalOnly struct{}

func (evalOnly) Started(train.Info) error { return nil }
func (evalOnly) Step(train.StepInfo)      {}
func (evalOnly) Evaluated(train.Eval)     {}

// modelIn finds the model that a path names: the file, or ModelFile in a folder.
func modelIn(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%s: no model there; name a safetensors file or a run's output folder: %w", path, config.ErrInvalid)
	}
	if !info.IsDir() {
		return path, nil
	}
	file := filepath.Join(path, ModelFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: no %s in this folder; the run has not ended, or job.save_model = false: %w", path, ModelFile, config.ErrInvalid)
	}
	return file, nil
}

// Export copies the model of a run (or a model file) to a safetensors file,
// after checking it.
func Export(from, to string, w io.Writer) error {
	path, err := modelIn(from)
	if err != nil {
		return err
	}
	if same(path, to) {
		return fmt.Errorf("--to %s: that is the model itself; name another file: %w", to, config.ErrInvalid)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", err, config.ErrInvalid)
	}
	defer f.Close()
	var specs []safetensors.Spec
	var bytes int64
	for _, t := range f.Tensors() {
		specs = append(specs, t.Spec)
		bytes += t.Size()
	}
	out, err := safetensors.Create(to, specs)
	if err != nil {
		return fmt.Errorf("--to %s: %w: %w", to, err, config.ErrInvalid)
	}
	defer out.Abort()
	live := report.NewLive(w, "export bytes", bytes)
	defer live.Close()
	done := int64(0)
	buf := make([]byte, 4<<20)
	for _, t := range f.Tensors() {
		for at := int64(0); at < t.Size(); {
			n := min(int64(len(buf)), t.Size()-at)
			if _, err := t.ReadAt(buf[:n], at); err != nil {
				return fmt.Errorf("%s: %s: %w", path, t.Name, err)
			}
			if _, err := out.Write(buf[:n]); err != nil {
				return fmt.Errorf("%s: %w", to, err)
			}
			at += n
			done += n
			live.Advance(done)
		}
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	live.Line("%d tensors, %s bytes: %s", len(specs), report.Thousands(bytes), to)
	return nil
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
