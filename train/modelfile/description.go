package modelfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/model"
)

// The keys of a model file's metadata. Values without a note are texts as they are.
const (
	KeyVersion = "ecrec.version" // of the program that wrote the file
	KeyModel   = "ecrec.model"   // JSON: "dense", and the keys of [model] that the kind reads
	KeyData    = "ecrec.data"    // JSON: data.Recipe, the way from a row of raw data to a sample
	KeyConfig  = "ecrec.config"  // TOML, a line per key: the keys that define the result
	KeyRun     = "ecrec.run"     // job.name
	KeyLineage = "ecrec.lineage" // of the run
	KeySeed    = "ecrec.seed"
	KeyStep    = "ecrec.step"   // the last one whose updates are in the file
	KeyDigest  = "ecrec.digest" // of the model with its optimizer state; missing if it is unknown
)

// Keys lists the keys in the order in which a reader may show them.
var Keys = []string{KeyVersion, KeyRun, KeyLineage, KeySeed, KeyStep, KeyDigest, KeyModel, KeyData, KeyConfig}

// Describe returns the metadata of a file that holds the model of a run after a step: all that is
// needed, beside the tensors, to score raw data. The config has the rows of all tables. Digest may be
// empty. The recipe of the data may be nil if it follows from the config.
func Describe(c *config.Config, run lineage.Run, step int64, digest string, recipe *data.Recipe) map[string]string {
	var keys strings.Builder
	for _, e := range run.Recipe {
		fmt.Fprintf(&keys, "%s = %s\n", e.Key, e.Value)
	}
	m := map[string]string{
		KeyVersion: ecrec.Version(),
		KeyModel:   encode(describeModel(c)),
		KeyConfig:  keys.String(),
		KeyRun:     run.Name,
		KeyLineage: run.Lineage.String(),
		KeySeed:    strconv.FormatUint(c.Job.Seed, 10),
		KeyStep:    strconv.FormatInt(step, 10),
	}
	if digest != "" {
		m[KeyDigest] = digest
	}
	if recipe == nil {
		recipe, _ = data.NewRecipe(c.DataOptions(false)) // an error: the config is no run's
	}
	if recipe != nil && recipe.Complete() {
		m[KeyData] = encode(recipe)
	}
	return m
}

// DescribeRun is Describe for the run of a checkpoint. There is no metadata without a run, if its recipe
// is of another version, or if tables were counted and the recipe of the data is unknown.
func DescribeRun(run *lineage.Run, step int64, digest string, recipe *data.Recipe) map[string]string {
	if run == nil {
		return nil
	}
	c, err := run.Recipe.Config()
	if err != nil {
		return nil
	}
	if c, err = resolveTables(c, recipe); err != nil {
		return nil
	}
	return Describe(c, *run, step, digest, recipe)
}

// resolveTables returns the config with the rows of the tables that were counted, which a recipe has.
func resolveTables(c *config.Config, recipe *data.Recipe) (*config.Config, error) {
	if !c.Model.Tables.IsCounted() {
		return c, nil
	}
	if recipe == nil {
		return nil, errors.New("the rows of its tables were counted, and the recipe of the data is missing")
	}
	return c.Resolve(recipe), nil
}

// RecipeOf returns the recipe of the data in a file's metadata, nil if there is none.
func RecipeOf(metadata map[string]string) (*data.Recipe, error) {
	text, ok := metadata[KeyData]
	if !ok {
		return nil, nil
	}
	return data.ParseRecipe([]byte(text))
}

// ConfigOf returns the config in a file's metadata: the keys that define the result, and defaults for the others.
func ConfigOf(metadata map[string]string) (*config.Config, error) {
	text, ok := metadata[KeyConfig]
	if !ok {
		return nil, errors.New("the file carries no recipe")
	}
	var recipe lineage.Recipe
	for line := range strings.Lines(text) {
		var e lineage.Entry
		if err := e.UnmarshalText([]byte(strings.TrimSuffix(line, "\n"))); err != nil {
			return nil, fmt.Errorf("the recipe in the file is damaged: %w", err)
		}
		recipe = append(recipe, e)
	}
	c, err := recipe.Config()
	if err != nil {
		return nil, err
	}
	r, err := RecipeOf(metadata)
	if err != nil {
		return nil, err
	}
	return resolveTables(c, r)
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("modelfile: a description must encode: " + err.Error())
	}
	return string(text)
}

// describeModel returns the number of dense features, and the keys of [model] that the kind reads. If features share tables,
// table_of has the number of each feature's table, and if any is a mean, pooling has a word for each.
func describeModel(c *config.Config) map[string]any {
	m := map[string]any{"dense": c.Data.DenseCount(), "tables": c.Model.TableRows()}
	kind, _ := model.Find(c.Model.Kind)
	for _, kv := range c.KeyValues() {
		key, ok := strings.CutPrefix(kv.Key, "model.")
		if common := key == "kind" || key == "embedding_dim"; !ok || !common && !kind.Reads(key) {
			continue
		}
		m[key] = json.RawMessage(kv.Value) // texts, numbers and lists of them: TOML and JSON write these alike
	}
	if tables := c.Model.TableNumbers(); tables != nil {
		m["table_of"] = tables
	}
	if means := c.Model.Means(); means != nil {
		pooling := make([]string, len(means))
		for f := range pooling {
			pooling[f] = [2]string{"sum", "mean"}[means[f]]
		}
		m["pooling"] = pooling
	}
	return m
}
