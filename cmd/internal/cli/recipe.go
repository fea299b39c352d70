package cli

import (
	"errors"
	"fmt"
	"io"
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
	if !r.HasNames() {
		return nil
	}
	return r.Encode()
}

// readDescription reads the config of a model, and the recipe of its data, from its file or checkpoint. The config is nil
// if there is none, or if it leaves tables to be counted that are not in the recipe: the folder of the run may have it then.
func readDescription(from modelAt) (cfg *config.Config, recipe *data.Recipe, err error) {
	if recipe, err = readRecipe(from); err != nil {
		return nil, nil, err
	}
	if from.checkpoint != "" {
		ck, err := findCheckpoint(io.Discard, from.checkpoint)
		if err != nil || ck.Run == nil {
			return nil, nil, err
		}
		if cfg, err = ck.Run.Recipe.Config(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", ck.Path, err)
		}
		cfg.Job.Out = filepath.Dir(ck.Path)
		if cfg.Model.Tables.IsCounted() && recipe == nil {
			return nil, nil, nil
		}
		return cfg, recipe, nil
	}
	f, err := safetensors.Open(from.file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if f.Metadata[modelfile.KeyConfig] == "" {
		return nil, nil, nil
	}
	if cfg, err = modelfile.ConfigOf(f.Metadata); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from.file, err)
	}
	cfg.Job.Out = filepath.Dir(from.file)
	return cfg, recipe, nil
}

// readRecipe reads the recipe of the data from a model's file or checkpoint, nil if there is none.
func readRecipe(from modelAt) (*data.Recipe, error) {
	if from.checkpoint == "" {
		f, err := safetensors.Open(from.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return modelfile.RecipeOf(f.Metadata)
	}
	ck, err := findCheckpoint(io.Discard, from.checkpoint)
	if err != nil {
		return nil, err
	}
	text, err := ck.ReadRecipe()
	if text == nil || err != nil {
		return nil, err
	}
	recipe, err := data.ParseRecipe(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ck.Path, err)
	}
	return recipe, nil
}

// findRecipe returns the recipe of a model's data: that in its file or checkpoint, or that of the run whose folder is at or
// above a path. It is nil if there is none, or if the config leaves nothing to be counted.
func findRecipe(path string, from modelAt, cfg *config.Config) (*data.Recipe, error) {
	if r, err := data.NewRecipe(cfg.DataOptions(false)); err != nil || r.Complete() {
		return nil, err
	}
	if r, err := readRecipe(from); r != nil || err != nil {
		return r, err
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
