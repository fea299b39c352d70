package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBagsKilled kills ranks of jobs on rows with several ids in a field, with weights, means and a table that two features
// share: a rank that does all, then a reader, a server and a trainer. Losses, evaluations and digest are those of one process
// without losses, readers, caches and a code.
func TestBagsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	dir := t.TempDir()
	rows := "y,a,b,user,clicked,item\n"
	for i := range 360 {
		clicked := []string{fmt.Sprint("i", i%17), fmt.Sprintf("i%d:%v", i%29, float64(i%7)/4-0.5), fmt.Sprintf("i%d:2", i%17), "x"}[:i%5%4]
		rows += fmt.Sprintf("%d,%d,%d,u%d,%s,i%d\n", i*i%3%2, i%9, i%13, i%41, strings.Join(clicked, "|"), i%31)
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "run.toml")
	if err := os.WriteFile(config, []byte(`[job]
threads = 1
[data]
format = "csv"
train = ["rows.csv"]
eval = ["rows.csv"]
[data.csv]
label = "y"
dense = ["a", "b"]
categorical = ["user", "clicked", "item"]
separator = "|"
bags = ["clicked"]
weighted = true
[model]
embedding_dim = 4
tables = [40, 25]
table_of = ["user", "item", "item"]
pooling = ["sum", "mean", "sum"]
[train]
global_batch = 24
iterations = 30
eval_every = 12
[optimizer.sparse]
kind = "adagrad"
[ec]
code = "xor"
k = 2
commit_every = 4
`), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ranks, readers int
		sets, faults   []string
	}{
		"wdl": {3, 0, []string{"model.kind=wdl", "model.linear=true", "model.bottom_mlp=[]", "model.top_mlp=[8, 1]", "cache.mode=lrpp"},
			[]string{"kill:1@17:push"}},
		"dcn in roles": {6, 1, []string{"model.kind=dcn", "model.cross_layers=2", "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]",
			"ranks.trainers=2", "ranks.servers=3"}, []string{"kill:5@7", "kill:3@15:push", "kill:1@23:forward"}},
	} {
		t.Run(name, func(t *testing.T) {
			whole, out := filepath.Join(dir, name, "whole"), filepath.Join(dir, name, "out")
			plain := append(slices.Clone(c.sets), fmt.Sprint("job.ranks=", c.ranks-c.readers), "ec.code=none", "cache.mode=none")
			if r := run(t, ecrec(t), nil, train(config, whole, plain...)...); r.code != 0 {
				t.Fatal(r.stderr)
			}
			sets := append(slices.Clone(c.sets), fmt.Sprint("job.ranks=", c.ranks), fmt.Sprint("ranks.readers=", c.readers))
			args := append(train(config, out, sets...), "--np", fmt.Sprint(c.ranks))
			for _, fault := range c.faults {
				args = append(args, "--chaos", fault)
			}
			r := run(t, ecrec(t), nil, args...)
			if r.code != 0 {
				t.Fatal(r.stderr)
			}
			got := readSummary(t, out)
			equal(t, name, got, readSummary(t, whole))
			if n := losses(r.stderr); n != len(c.faults) || len(got.Recoveries) != n {
				t.Errorf("%d losses and %d recoveries, want %d\n%s", n, len(got.Recoveries), len(c.faults), r.stderr)
			}
		})
	}
}
