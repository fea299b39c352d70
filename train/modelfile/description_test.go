package modelfile

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/lineage"
)

// describe returns the metadata of a run of a config with these tables.
func describe(t *testing.T, tables string, recipe *data.Recipe) map[string]string {
	t.Helper()
	c, err := config.Parse([]byte("[data]\nformat = \"csv\"\n[data.csv]\ndense = [\"a\"]\ncategorical = [\"b\", \"c\"]\n[model]\ntables = " + tables +
		"\nbottom_mlp = [4]\nembedding_dim = 4\n[optimizer.dense]\neps = 1e-8\n[optimizer.sparse]\neps = 1e-8\n"))
	if err != nil {
		t.Fatal(err)
	}
	run := lineage.New("name", lineage.OfConfig(c))
	return DescribeRun(&run, 7, "abc", recipe)
}

// The config of a description is that of the run, with the rows of counted tables.
func TestConfigOfDescription(t *testing.T) {
	counted := &data.Recipe{Version: 1, Format: "csv", Dense: []data.DenseColumn{{Column: "a", Transform: data.TransformLog1p}},
		Categorical: []data.Category{{Column: "b", Rows: 3, IDs: data.IDsVocabulary, Reserved: 2, Vocabulary: []string{"x"}}, {Column: "c", Rows: 30, IDs: data.IDsHash}}}
	for _, e := range []struct {
		tables string
		recipe *data.Recipe
		want   []int64
	}{{"[5, 6]", nil, []int64{5, 6}}, {`{b = 5, c = 6}`, nil, []int64{5, 6}}, {`"auto"`, counted, []int64{3, 30}}, {`{b = "auto", c = 30}`, counted, []int64{3, 30}}} {
		m := describe(t, e.tables, e.recipe)
		c, err := ConfigOf(m)
		if err != nil {
			t.Errorf("%s: %v", e.tables, err)
			continue
		}
		if got := c.ModelConfig(); !reflect.DeepEqual(c.Model.TableRows(), e.want) || got.Kind != "dlrm" || got.Dense != 1 || got.Tables != 2 {
			t.Errorf("%s: %+v with tables %v", e.tables, got, c.Model.TableRows())
		}
		if m[KeyStep] != "7" || m[KeyDigest] != "abc" || m[KeyRun] != "name" || !strings.Contains(m[KeyModel], `"embedding_dim":4`) {
			t.Errorf("%s: %v", e.tables, m)
		}
		for key := range m {
			if !strings.Contains(strings.Join(Keys, " "), key) {
				t.Errorf("%s is not in Keys", key)
			}
		}
	}
}

// The model's keys name the table and the pooling of each feature if they are not the defaults.
func TestFeaturesOfDescription(t *testing.T) {
	for tables, want := range map[string]string{
		"[5, 6]": `"tables":[5,6]`,
		"[5]\ntable_of = [\"x\", \"x\"]\npooling = \"mean\"":               `"pooling":["mean","mean"],"table_of":[0,0],"tables":[5]`,
		"[5, 6]\ntable_of = [\"x\", \"y\"]\npooling = [\"sum\", \"mean\"]": `"pooling":["sum","mean"],"tables":[5,6]`,
	} {
		text := describe(t, tables, nil)[KeyModel]
		if !strings.Contains(text, want) || strings.Contains(text, "pooling") != strings.Contains(want, "pooling") {
			t.Errorf("%s: %s", tables, text)
		}
	}
}

// Without the recipe of the data there is no description of counted tables, and no config without a description.
func TestNoDescription(t *testing.T) {
	if m := describe(t, `"auto"`, nil); m != nil {
		t.Errorf("counted tables without rows: %v", m)
	}
	if m := DescribeRun(nil, 7, "", nil); m != nil {
		t.Errorf("no run: %v", m)
	}
	if m := DescribeRun(&lineage.Run{Recipe: lineage.Recipe{{Key: "model.novel", Value: "3"}}}, 7, "", nil); m != nil {
		t.Errorf("a run of a later version: %v", m)
	}
	good := describe(t, "[5, 6]", nil)
	for _, e := range []struct{ key, value, want string }{
		{KeyConfig, "model.tables", "damaged"}, {KeyConfig, "model.novel = 3\n", "version"}, {KeyData, "{", "not a recipe"},
	} {
		m := map[string]string{KeyConfig: good[KeyConfig], KeyData: good[KeyData]}
		m[e.key] = e.value
		if _, err := ConfigOf(m); err == nil || !strings.Contains(err.Error(), e.want) {
			t.Errorf("%s = %q: %v, want %q", e.key, e.value, err, e.want)
		}
	}
	if _, err := ConfigOf(nil); err == nil {
		t.Error("no metadata: no error")
	}
}
