package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/train/modelfile"
)

// encodeRecipe returns a recipe as JSON, or nothing if it has no columns with names: it follows from the config then.
func encodeRecipe(r *data.Recipe) []byte {
	if r == nil || !r.HasNames() {
		return nil
	}
	return r.Encode()
}

// findRecipe returns the recipe of the run whose folder, or a file of it, is at a path. It is nil if there is none, or if
// the config leaves nothing to be counted.
func findRecipe(path string, cfg *config.Config) (*data.Recipe, error) {
	if r, err := data.NewRecipe(cfg.DataOptions(false)); err != nil || r.Complete() {
		return nil, err
	}
	if f, err := safetensors.Open(path); err == nil { // a model file has its own
		r, err := modelfile.RecipeOf(f.Metadata)
		f.Close()
		if r != nil || err != nil {
			return r, err
		}
	}
	for _, dir := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path)), cfg.Job.Out} {
		name := filepath.Join(dir, report.RecipeFile)
		if info, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		return data.ReadRecipe(env.Real(), name)
	}
	return nil, nil
}
