package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small is a run over two.csv. Each case makes one thing in it wrong.
const small = `[data]
format = "csv"
train = ["two.csv"]
[data.csv]
label = "label"
dense = ["a", "b"]
categorical = ["c", "d"]
[model]
embedding_dim = 4
tables = [9, 20]
bottom_mlp = [8, 4]
top_mlp = [8, 1]
[train]
global_batch = 16
epochs = 1
[optimizer.dense]
kind = "sgd"
lr = 0.1
`

// rows returns a csv file of n samples.
func rows(n int) string {
	var s strings.Builder
	s.WriteString("label,a,b,c,d\n")
	for i := range n {
		fmt.Fprintf(&s, "%d,%d,%d,x%d,y%d\n", i%2, i, 3*i%17, i%7, i%19)
	}
	return s.String()
}

// job writes a config and its data to a folder and returns the config's path.
func job(t *testing.T, config string, files map[string]string) (path string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "run.toml"), config)
	write(t, filepath.Join(dir, "two.csv"), rows(64))
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return filepath.Join(dir, "run.toml")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// criteo lists the settings that make small a criteo-bin run over train.bin.
var criteo = []string{"data.format=criteo-bin", `data.train=["train.bin"]`,
	"model.tables=[" + strings.TrimSuffix(strings.Repeat("9, ", 26), ", ") + "]"}

// records returns a criteo-bin file of n samples with the given label.
func records(n int, label byte) string {
	one := make([]byte, 160)
	one[0] = label
	return strings.Repeat(string(one), n)
}

// Bad input ends with exit code 2 and one line that names the place and the problem. Nothing is
// written.
func TestBadInput(t *testing.T) {
	replace := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("the config has no %q", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	tsv := []string{"data.format=criteo-tsv", `data.train=["bad.tsv"]`, criteo[2]}
	line := "0" + strings.Repeat("\t5", 13) + strings.Repeat("\t0a1b2c3d", 26) + "\n"
	for _, c := range []struct {
		name   string
		config string // small if empty
		sets   []string
		files  map[string]string
		says   []string
	}{
		{name: "misspelt key", config: replace("global_batch", "global_bach"),
			says: []string{"run.toml:14: unknown key train.global_bach", "train.global_batch"}},
		{name: "misspelt table", config: replace("[optimizer.dense]", "[optimiser.dense]"),
			says: []string{"run.toml:16: unknown key optimiser.dense; the nearest known key is optimizer.dense"}},
		{name: "misspelt in --set", sets: []string{"job.rank=2"}, says: []string{"--set job.rank=2", "job.ranks"}},
		{name: "wrong type", config: replace("global_batch = 16", `global_batch = "many"`),
			says: []string{"run.toml:14", "train.global_batch", "integer"}},
		{name: "wrong type in a list", config: replace("[9, 20]", `[9, "x"]`), says: []string{"run.toml:10", "model.tables"}},
		{name: "not TOML", config: replace("epochs = 1", "epochs = = 1"), says: []string{"run.toml:15", "not valid TOML"}},
		{name: "no config", config: "", sets: []string{"job.ranks=2"}, files: map[string]string{"run.toml": ""},
			says: []string{"run.toml", "[data] is missing"}},
		{name: "batch smaller than ranks", sets: []string{"job.ranks=17"},
			says: []string{"run.toml:14: train.global_batch: 16 samples cannot be split over 17 ranks"}},
		{name: "table of too many rows", config: replace("[9, 20]", "[9, 5000000000]"),
			says: []string{"run.toml:10: model.tables: table 1 has 5000000000 rows"}},
		{name: "table of 0 rows", config: replace("[9, 20]", "[9, 0]"), says: []string{"run.toml:10: model.tables: table 1 has 0 rows"}},
		{name: "bottom layers do not chain", config: replace("[8, 4]", "[8, 5]"), says: []string{"run.toml:11: model.bottom_mlp", "5", "4"}},
		{name: "top layers do not end in 1", config: replace("[8, 1]", "[8]"), says: []string{"run.toml:12: model.top_mlp", "ends in 8"}},
		{name: "layer of width 0", config: replace("[8, 4]", "[0, 4]"), says: []string{"run.toml:11: model.bottom_mlp: layer 0 has width 0"}},
		{name: "0 ranks", sets: []string{"job.ranks=0"}, says: []string{"--set job.ranks=0: job.ranks: 0 is out of range"}},
		{name: "tables that no memory holds", sets: []string{"model.tables=[1000000000, 1000000000]",
			"model.embedding_dim=4096", "model.bottom_mlp=[4096]"}, says: []string{"memory: the job needs", "model.tables"}},
		{name: "batch that no memory holds", sets: []string{"train.global_batch=80000000", "model.bottom_mlp=[65536, 65536, 4]",
			"data.format=synthetic", "data.train=[]", "train.epochs=0", "train.iterations=2", criteo[2]},
			says: []string{"memory: the job needs", "train.global_batch"}},

		{name: "no data file", sets: []string{`data.train=["none.csv"]`}, says: []string{"none.csv: "}},
		{name: "data file is a folder", sets: []string{`data.train=["."]`}, says: []string{": "}},
		{name: "no evaluation file", sets: []string{`data.eval=["none.csv"]`}, says: []string{"none.csv: "}},
		{name: "empty csv", files: map[string]string{"two.csv": ""}, says: []string{"two.csv"}},
		{name: "csv of a header only", files: map[string]string{"two.csv": rows(0)}, says: []string{"two.csv", "no well-formed sample"}},
		{name: "empty binary", sets: criteo, files: map[string]string{"train.bin": ""}, says: []string{"train.bin", "empty"}},
		{name: "truncated binary", sets: criteo, files: map[string]string{"train.bin": records(40, 1)[:6390]},
			says: []string{"train.bin", "6390", "160"}},
		{name: "truncated tsv", sets: tsv, files: map[string]string{"bad.tsv": line + line[:90]}, says: []string{"bad.tsv:2: "}},
		{name: "malformed tsv", sets: tsv, files: map[string]string{"bad.tsv": line +
			strings.Replace(line, "\t5\t5\t5\t5\t5\t5", "\t5\t5\t5\t5\t5\tx1", 1)}, says: []string{`bad.tsv:2: field 7 "x1": not an integer`}},
		{name: "tsv label", sets: tsv, files: map[string]string{"bad.tsv": line + line + "2" + line[1:]},
			says: []string{"bad.tsv:3: field 1 \"2\"", "label"}},
		{name: "malformed csv", files: map[string]string{"two.csv": rows(50) + "1,2,x1,x,y\n" + rows(9)[14:]},
			says: []string{`two.csv:52: field 3 (b) "x1": not a decimal number`}},
		{name: "csv label", files: map[string]string{"two.csv": rows(3) + "3,2,1,x,y\n"}, says: []string{`two.csv:5: field 1`, "label"}},
		{name: "too few fields", files: map[string]string{"two.csv": rows(3) + "1,2\n"}, says: []string{"two.csv:5: "}},
		{name: "no such column", sets: []string{`data.csv.dense=["a", "bb"]`}, says: []string{"two.csv", `"bb"`}},
		{name: "quote not closed", files: map[string]string{"two.csv": rows(3) + "1,2,3,\"x,y\n"}, says: []string{"two.csv:5: "}},

		{name: "output under a file", sets: []string{"job.out=two.csv/out"},
			says: []string{"two.csv/out: cannot write to this folder", "job.out"}},
		{name: "no model to start from", sets: []string{"model.init_from=none.safetensors"}, says: []string{"none.safetensors"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.config == "" {
				c.config = small
			}
			path := job(t, c.config, c.files)
			before := tree(t, filepath.Dir(path))
			out := filepath.Join(filepath.Dir(path), "out")
			got := run(t, ecrec(t), nil, train(path, out, c.sets...)...)
			checkRefused(t, got, 2, c.says...)
			for _, name := range []string{"summary.json", "config.toml", "model.safetensors", "metrics.jsonl"} {
				if exists(filepath.Join(out, name)) {
					t.Errorf("%s was written", name)
				}
			}
			if c.name == "no evaluation file" && exists(out) {
				t.Error("training data was converted before the missing file was reported")
			}
			after := tree(t, filepath.Dir(path))
			for name := range after {
				if !before[name] && !strings.HasPrefix(name, out) {
					t.Errorf("%s was left behind", name)
				}
			}
		})
	}
}

// checkRefused checks the exit code and the one line of an error.
func checkRefused(t *testing.T, got ended, code int, says ...string) {
	t.Helper()
	if got.code != code {
		t.Errorf("exit code %d, want %d", got.code, code)
	}
	if strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "ecrec: ") {
		t.Errorf("stderr is not one line: %q", got.stderr)
	}
	if strings.Contains(got.stderr, ": invalid config") {
		t.Errorf("stderr names a class of errors: %q", got.stderr)
	}
	for _, s := range says {
		if !strings.Contains(got.stderr, s) {
			t.Errorf("stderr %q lacks %q", got.stderr, s)
		}
	}
}

// tree returns every path below a folder.
func tree(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	if err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		all[path] = true
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Files of a refused run do not harm the next run: with correct input it has the usual result.
func TestMendedInputRuns(t *testing.T) {
	program := ecrec(t)
	clean := job(t, small, nil)
	wantOut := filepath.Join(filepath.Dir(clean), "out")
	if r := run(t, program, nil, train(clean, wantOut)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	want := readSummary(t, wantOut)

	bad := rows(64) + "1,x1,3,x,y\n"
	path := job(t, small, map[string]string{"two.csv": bad})
	out := filepath.Join(filepath.Dir(path), "out")
	train := func(config, out string, sets ...string) []string {
		return append(train(config, out, sets...), "--overwrite")
	}
	for range 2 {
		checkRefused(t, run(t, program, nil, train(path, out)...), 2, `two.csv:66: field 2 (a) "x1": not a decimal number`)
	}
	skipping := run(t, program, nil, train(path, out, "data.on_error=skip")...)
	if skipping.code != 0 || !strings.Contains(skipping.stdout, "skipped 1 malformed") {
		t.Fatalf("%+v", skipping)
	}
	got := readSummary(t, out)
	equal(t, "with a line skipped", got, want)
	if got.Skipped != 1 || want.Skipped != 0 {
		t.Errorf("%d and %d lines skipped, want 1 and 0", got.Skipped, want.Skipped)
	}
	// Files of a run that skipped the line must not hide the line from a run that may not skip it.
	checkRefused(t, run(t, program, nil, train(path, out)...), 2, `two.csv:66: field 2`)
	write(t, filepath.Join(filepath.Dir(path), "two.csv"), rows(64))
	if r := run(t, program, nil, train(path, out)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	equal(t, "with the line mended", readSummary(t, out), want)
}

// A bad binary record is detected before a run starts, and nothing is written.
func TestBadRecordIsFoundFirst(t *testing.T) {
	path := job(t, small, map[string]string{"train.bin": records(40, 1) + records(1, 7)})
	out := filepath.Join(filepath.Dir(path), "out")
	got := run(t, ecrec(t), nil, train(path, out, criteo...)...)
	checkRefused(t, got, 2, "train.bin: record 41: the label is neither 0 nor 1")
	if exists(out) {
		t.Error("a refused run left an output folder")
	}
}

// A loss that is not a number ends a run that had started. Its summary has the reason.
func TestDivergedRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	got := run(t, ecrec(t), nil, train(golden("dlrm-sgd"), out, "job.ranks=2", "optimizer.dense.lr=3e38")...)
	checkRefused(t, got, 1, "step ", "largest dense gradient: ", "optimizer.dense.lr")
	s := readSummary(t, out)
	if s.Digest != "" || s.Stopped || s.Steps < 1 || s.Steps != len(s.TrainLoss) || !strings.Contains(got.stderr, s.Error) || s.Error == "" {
		t.Errorf("summary %+v", s)
	}
	if exists(filepath.Join(out, "model.safetensors")) {
		t.Error("the model of a failed run was saved")
	}
}
