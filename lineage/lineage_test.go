package lineage

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
)

// Every key has a class, and every class is of a key of the config.
func TestEveryKeyHasAClass(t *testing.T) {
	known := map[string]bool{}
	for _, kv := range config.Default().KeyValues() {
		known[kv.Key] = true
		if _, ok := classes[kv.Key]; !ok {
			t.Errorf("%s: keys.go lacks its class", kv.Key)
		}
	}
	for key := range classes {
		if !known[key] {
			t.Errorf("%s is not a key of the config: remove it from keys.go", key)
		}
	}
}

func inputs(sum string) Inputs {
	return Inputs{Train: data.Identity{Samples: 10, Files: []data.FileIdentity{{Bytes: 1600, XXH3: sum}}}}
}

// A recipe holds no paths, names and machines.
func TestRecipeHoldsNoPlace(t *testing.T) {
	a, b := config.Default(), config.Default()
	b.Job.Name, b.Job.Out, b.Job.Threads, b.Job.Device = "other", "/secret/out", 7, "cpu"
	b.Data.Train, b.Data.Eval, b.Model.InitFrom = []string{"/secret/a"}, []string{"/secret/b"}, "/secret/c"
	b.Checkpoint.Dir, b.Cache.Mode, b.EC.Code, b.Metrics.Listen = "/secret/d", "none", "xor", ":9100"
	if ra, rb := Of(a, inputs("1")), Of(b, inputs("1")); !reflect.DeepEqual(ra, rb) {
		t.Errorf("%v\n%v", ra, rb)
	}
	if !slices.IsSortedFunc(Of(a, inputs("1")), func(a, b Entry) int { return strings.Compare(a.Key, b.Key) }) {
		t.Error("a recipe is not sorted")
	}
}

// Each kind of difference is refused unless allowed, noted, or never allowed.
func TestDifferences(t *testing.T) {
	there := Of(config.Default(), inputs("1"))
	for _, c := range []struct {
		what         func(*config.Config, *Inputs)
		key          string
		noted, fixed bool
	}{
		{func(c *config.Config, _ *Inputs) { c.Optimizer.Dense.LR = 0.01 }, "optimizer.dense.lr", false, false},
		{func(c *config.Config, _ *Inputs) { c.Train.GlobalBatch = 7 }, "train.global_batch", false, false},
		{func(c *config.Config, _ *Inputs) { c.Job.Ranks = 3 }, "job.ranks", false, false},
		{func(_ *config.Config, in *Inputs) { *in = inputs("2") }, "data.train", false, false},
		{func(c *config.Config, _ *Inputs) { c.Job.Seed = 7 }, "job.seed", false, true},
		{func(c *config.Config, _ *Inputs) { c.Model.TopMLP = []int{1} }, "model.top_mlp", false, true},
		{func(c *config.Config, _ *Inputs) { c.Train.Iterations = 7 }, "train.iterations", true, false},
		{func(_ *config.Config, in *Inputs) { in.Eval.Files = in.Train.Files }, "data.eval", true, false},
	} {
		cfg, in := config.Default(), inputs("1")
		c.what(cfg, &in)
		here := Of(cfg, in)
		diff := there.Diff(here, false)
		if len(diff) != 1 || diff[0].Key != c.key || diff[0].Fixed() != c.fixed || diff[0].Defines() == c.noted {
			t.Errorf("%s: %+v", c.key, diff)
			continue
		}
		if refused := Refused(diff, nil); len(refused) == 1 == c.noted {
			t.Errorf("%s: refused %v", c.key, refused)
		}
		if refused := Refused(diff, []string{c.key}); len(refused) == 1 != c.fixed {
			t.Errorf("%s, allowed: refused %v", c.key, refused)
		}
		if err := CheckAllowed(c.key); err != nil != c.fixed {
			t.Errorf("--allow %s: %v", c.key, err)
		}
		old, run := New("a", there), New("a", here)
		if same := run.Lineage == old.Lineage; same != c.noted {
			t.Errorf("%s: the same lineage: %v", c.key, same)
		}
		next := run.Resume(old, 5)
		if forked := len(next.Forks) == 1 && next.Forks[0] == (Fork{old.Lineage, 5}) && next.Lineage != run.Lineage &&
			next.Lineage != old.Lineage; forked == c.noted {
			t.Errorf("%s: resumed as %+v", c.key, next)
		}
	}
	if err := CheckAllowed("train.global_bach"); err == nil || !strings.Contains(err.Error(), "train.global_batch") {
		t.Errorf("a misspelt key: %v", err)
	}
}

// With a decay on either side, the length of the run defines it.
func TestLengthCountsWithADecay(t *testing.T) {
	a, b := config.Default(), config.Default()
	a.Train.Iterations, a.Optimizer.Sparse.DecaySteps = 100, 50
	b.Train.Iterations, b.Optimizer.Sparse.DecaySteps = 200, 50
	if diff := Of(a, Inputs{}).Diff(Of(b, Inputs{}), false); len(diff) != 1 || !diff[0].Defines() {
		t.Errorf("%v", diff)
	}
	if New("", Of(a, Inputs{})).Lineage == New("", Of(b, Inputs{})).Lineage {
		t.Error("the same lineage")
	}
}

// A recipe of an earlier version means defaults for missing keys. One of a later version differs.
func TestRecipesOfOtherVersions(t *testing.T) {
	here := Of(config.Default(), Inputs{})
	earlier := slices.DeleteFunc(slices.Clone(here), func(e Entry) bool { return e.Key == "model.dropout" })
	if diff := earlier.Diff(here, false); len(diff) > 0 {
		t.Errorf("earlier: %v", diff)
	}
	c := config.Default()
	c.Model.Dropout = 0.5
	if diff := earlier.Diff(Of(c, Inputs{}), false); len(diff) != 1 || diff[0].There != "0" {
		t.Errorf("earlier, with dropout: %v", diff)
	}
	later := append(slices.Clone(here), Entry{"model.novel", "3"})
	if diff := later.Diff(here, false); len(diff) != 1 || !diff[0].Defines() || diff[0].Here != missing {
		t.Errorf("later: %v", diff)
	}
	partial := Recipe{{"job.ranks", "4"}, {"job.seed", "42"}}
	if diff := partial.Diff(here, true); len(diff) != 1 || diff[0].Key != "job.ranks" {
		t.Errorf("partial: %v", diff)
	}
}

// The offsets at which a run begins in a topic of samples are part of its lineage, unless all are 0.
func TestBeginAt(t *testing.T) {
	run := New("a", Recipe{{"job.ranks", "4"}})
	if got := run.BeginAt([]int64{0, 0}); !reflect.DeepEqual(got, run) {
		t.Errorf("at the beginning of a topic: %+v", got)
	}
	a, b := run.BeginAt([]int64{0, 7}), run.BeginAt([]int64{7, 0})
	if a.Lineage == run.Lineage || b.Lineage == run.Lineage || a.Lineage == b.Lineage {
		t.Errorf("lineages %v, %v and %v", run.Lineage, a.Lineage, b.Lineage)
	}
	if got := run.Resume(a, 5); got.Lineage != a.Lineage {
		t.Errorf("a run that resumes has lineage %v, not %v", got.Lineage, a.Lineage)
	}
}

// A run survives a manifest, and its hash does not depend on this version.
func TestRunsTravelAsJSON(t *testing.T) {
	run := New("a", Recipe{{"job.ranks", "4"}, {"model.kind", `"dlrm"`}}).Fork(Run{}, 3)
	b, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"a","lineage":"d4e34ebc5453235fa755b044f1840dd4","forks":[{"lineage":"unknown","step":3}],"recipe":["job.ranks = 4","model.kind = \"dlrm\""]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	var got Run
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, run) {
		t.Errorf("%v: %+v", err, got)
	}
	for _, bad := range []string{`{"lineage":"12"}`, `{"lineage":"zz"}`, `{"recipe":["x"]}`, `{"recipe":["x = \u001b[31m"]}`,
		`{"recipe":[" = 3"]}`} {
		if err := json.Unmarshal([]byte(bad), new(Run)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// A text of a config with runes that are not printable, as no-break spaces, is in a recipe that can be read back.
func TestTextOfAnyRune(t *testing.T) {
	c, err := config.Parse([]byte("[data.csv]\ndense = [\"price\u00a0eur\", \"a\u3000b\u200bc\", \"\U000e0001\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := OfConfig(c)
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Recipe
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %v", err, got)
	}
	back, err := got.Config()
	if err != nil || !reflect.DeepEqual(back.Data.CSV.Dense, c.Data.CSV.Dense) {
		t.Errorf("%v: %q", err, back.Data.CSV.Dense)
	}
}

// The rule of linear weights is that of the other rows, also after a way through a recipe, which leaves it out.
func TestLinearRule(t *testing.T) {
	c, err := config.Parse([]byte("[model]\nkind = \"deepfm\"\ntables = [5]\n[optimizer.sparse]\nkind = \"adam\"\nlr = 0.5\n"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := OfConfig(c).Config()
	if err != nil || back.Optimizer.Linear != c.Optimizer.Linear || back.Optimizer.Linear.Kind != "adam" {
		t.Errorf("%v: %+v", err, back.Optimizer.Linear)
	}
}
