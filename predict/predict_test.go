package predict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/train"
)

// quiet is an Observer that does nothing.
type quiet struct{}

func (quiet) Started(train.Info) error          { return nil }
func (quiet) Step(train.StepInfo)               {}
func (quiet) Evaluated(train.Eval)              {}
func (quiet) Committed(int64, string)           {}
func (quiet) Checkpointed(int64, string, error) {}
func (quiet) SkippedCheckpoint(string, error)   {}
func (quiet) Recovered(train.Recovery)          {}
func (quiet) Warned(string)                     {}

// recorder is a stream that records the probabilities of an evaluation.
type recorder struct {
	kernels.Stream
	probs *[]float32
}

func (r recorder) Sigmoid(p, z kernels.Buffer) {
	r.Stream.Sigmoid(p, z)
	if err := r.Sync(); err != nil {
		panic(err)
	}
	*r.probs = append(*r.probs, kernels.HostView[float32](p)...)
}

func load(t *testing.T, path string, sets ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.ranks=1", "job.device=cpu", "ec.code=none", "job.out=" + t.TempDir()}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// trained trains a config and evaluates the model that it saves. It returns the file, the evaluation
// and the probabilities of its samples.
func trained(t *testing.T, cfg *config.Config) (file string, e train.Eval, probs []float32) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "model.safetensors")
	stop := func() bool { return false }
	if _, err := train.Run(env.Real(), cfg, train.Options{Observer: quiet{}, Stop: stop, SaveTo: file}); err != nil {
		t.Fatal(err)
	}
	cfg.Model.InitFrom = file
	got, err := train.Run(env.Real(), cfg, train.Options{Observer: quiet{}, Stop: stop, EvalOnly: true,
		WrapStream: func(_ int, s kernels.Stream) kernels.Stream { return recorder{s, &probs} }})
	if err != nil {
		t.Fatal(err)
	}
	return file, got.Eval[0], probs
}

// predicted returns the lines of the scores of files, without the header.
func predicted(t *testing.T, cfg *config.Config, file string, threads int, files ...string) ([]string, Result) {
	t.Helper()
	m, err := Load(env.Real(), cfg, file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := Options{Env: env.Real(), Data: cfg.DataOptions(true), Threads: threads, Stop: func() error { return nil }}
	o.Data.Env, o.Data.Files = o.Env, files
	if o.Recipe, err = data.NewRecipe(o.Data); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, err := m.Run(o, &out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if lines[0] != "score" || int64(len(lines)-1) != r.Rows {
		t.Fatalf("header %q, %d lines, %d rows", lines[0], len(lines)-1, r.Rows)
	}
	return lines[1:], r
}

// sameBits checks that scores parse back to the bits of probabilities.
func sameBits(t *testing.T, what string, lines []string, probs []float32) {
	t.Helper()
	if len(lines) != len(probs) {
		t.Fatalf("%s: %d scores of %d samples", what, len(lines), len(probs))
	}
	for i, line := range lines {
		p, err := strconv.ParseFloat(line, 32)
		if err != nil || math.Float32bits(float32(p)) != math.Float32bits(probs[i]) {
			t.Fatalf("%s: row %d: score %s (%v), the evaluation has %v", what, i+1, line, err, probs[i])
		}
	}
}

// pairsAUC counts pairs of rows with labels 1 and 0, ties half, by the ranks of the scores.
func pairsAUC(labels []bool, scores []float32) float64 {
	below := map[uint32][2]float64{} // by bits: rows with label 0 and 1
	for i, s := range scores {
		n := below[math.Float32bits(s)]
		if labels[i] {
			n[1]++
		} else {
			n[0]++
		}
		below[math.Float32bits(s)] = n
	}
	wins, positives, negatives := 0.0, 0.0, 0.0
	for _, k := range slices.Sorted(maps.Keys(below)) { // positive floats are in the order of their bits
		n := below[k]
		wins += n[1] * (negatives + n[0]/2)
		positives, negatives = positives+n[1], negatives+n[0]
	}
	return wins / (positives * negatives)
}

// TestAdult trains on census data and scores the evaluation file: the bits are those of the evaluation,
// and so is the AUC, counted again here from the labels of the file.
func TestAdult(t *testing.T) {
	cfg := load(t, "../examples/quickstart.toml", "train.epochs=1", "optimizer.dense.decay_steps=0", "optimizer.dense.decay_start=0",
		"optimizer.sparse.decay_steps=0", "optimizer.sparse.decay_start=0")
	file, e, probs := trained(t, cfg)
	name := cfg.Data.Eval[0]
	for _, threads := range []int{1, 3} {
		lines, r := predicted(t, cfg, file, threads, name)
		sameBits(t, fmt.Sprint(threads, " threads"), lines, probs)
		if r.AUC != e.AUC || math.Abs(r.Logloss-e.Logloss) > 1e-12 || r.Labelled != r.Rows {
			t.Errorf("%+v, the evaluation has %+v", r, e)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var labels []bool
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if i > 0 {
			labels = append(labels, line[0] == '1')
		}
	}
	if again := pairsAUC(labels, probs); math.Abs(again-e.AUC) > 1e-6 {
		t.Errorf("AUC %v from the scores, the evaluation has %v", again, e.AUC)
	}
	record := filepath.Join(t.TempDir(), "eval.rec")
	o := cfg.DataOptions(true)
	o.Env = env.Real()
	if _, err := data.Convert(o, record); err != nil {
		t.Fatal(err)
	}
	cfg.Data.Format = data.FormatRecord
	lines, _ := predicted(t, cfg, file, 2, record)
	sameBits(t, "record file", lines, probs)
}

// TestSharedTables scores a model two of whose features look up one table.
func TestSharedTables(t *testing.T) {
	cfg := load(t, "../examples/quickstart.toml", "train.epochs=1", "optimizer.dense.decay_steps=0", "optimizer.dense.decay_start=0",
		"optimizer.sparse.decay_steps=0", "optimizer.sparse.decay_start=0", "data.csv.categorical=['workclass','race','sex']",
		"model.tables=[50, 40]", `model.table_of=["a", "b", "a"]`)
	file, e, probs := trained(t, cfg)
	lines, r := predicted(t, cfg, file, 2, cfg.Data.Eval...)
	sameBits(t, "shared tables", lines, probs)
	if r.AUC != e.AUC {
		t.Errorf("AUC %v, the evaluation has %v", r.AUC, e.AUC)
	}
}

// TestCriteo scores the same samples as a binary file, as text, and as text without labels.
func TestCriteo(t *testing.T) {
	dir := t.TempDir()
	tables := make([]int64, 26)
	for i := range tables {
		tables[i] = int64(30 + 100*i)
	}
	bin := filepath.Join(dir, "eval.bin")
	if err := data.Synth(data.SynthOptions{Env: env.Real(), To: bin, Tables: tables, Seed: 3, Samples: 3000}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "run.toml")
	text := fmt.Sprintf("[data]\nformat = \"criteo-bin\"\ntrain = [%q]\neval = [%q]\n[model]\nembedding_dim = 4\ntables = [%s]\nbottom_mlp = [8, 4]\ntop_mlp = [8, 1]\n[train]\nglobal_batch = 100\nepochs = 1\n",
		bin, bin, strings.Trim(strings.ReplaceAll(fmt.Sprint(tables), " ", ","), "[]"))
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, path)
	file, e, probs := trained(t, cfg)
	lines, r := predicted(t, cfg, file, 2, bin)
	sameBits(t, "criteo-bin", lines, probs)
	if r.AUC != e.AUC {
		t.Errorf("AUC %v, the evaluation has %v", r.AUC, e.AUC)
	}
	records, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	var labelled, bare bytes.Buffer
	for ; len(records) > 0; records = records[160:] {
		for field := range 40 {
			x := binary.LittleEndian.Uint32(records[4*field:])
			s := fmt.Sprint(int32(x))
			if field > 13 {
				s = fmt.Sprintf("%x", x)
			}
			if field > 0 {
				s = "\t" + s
				if field == 1 {
					bare.WriteString(s[1:])
				} else {
					bare.WriteString(s)
				}
			}
			labelled.WriteString(s)
		}
		labelled.WriteByte('\n')
		bare.WriteByte('\n')
	}
	cfg.Data.Format = data.FormatCriteoTSV
	for what, b := range map[string]*bytes.Buffer{"labelled": &labelled, "bare": &bare} {
		name := filepath.Join(dir, what)
		if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		lines, r := predicted(t, cfg, file, 2, name)
		sameBits(t, what, lines, probs)
		if what == "bare" && r.Labelled != 0 || what == "labelled" && r.AUC != e.AUC {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestInfiniteLogits: products of finite weights overflow, so that a score is 1 and its loss no number.
func TestInfiniteLogits(t *testing.T) {
	cfg := load(t, "../train/testdata/golden/wdl-adagrad/config.toml")
	m, err := Load(env.Real(), cfg, cfg.Model.InitFrom, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range m.dense {
		m.dense[i] = 1e10
	}
	l, err := m.NewLane(1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.SetDense(kernels.BytesOf(m.dense)); err != nil {
		t.Fatal(err)
	}
	for _, labelled := range []bool{true, false} {
		b := &data.RowBatch{Batch: data.Batch{N: 1, Dense: make([]float32, 13), IDs: make([]uint32, 26), Labels: []float32{1}}, HasLabel: []bool{labelled}}
		if got, err := l.Score(b, m); !errors.Is(err, errNaN) {
			t.Errorf("with a label: %v: scores %v, %v", labelled, got, err)
		}
	}
}

// TestErrorsEndTheRun: an error in the middle ends the work of all lanes and names the line.
func TestErrorsEndTheRun(t *testing.T) {
	cfg := load(t, "../examples/quickstart.toml", "train.epochs=0", "train.iterations=1")
	file, _, _ := trained(t, cfg)
	text, err := os.ReadFile(cfg.Data.Eval[0])
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := strings.Cut(string(text), "\n")
	name := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(name, []byte(header+"\n"+rest+"1,2\n"+strings.Repeat(rest, 3)), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := Load(env.Real(), cfg, file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	o := Options{Env: env.Real(), Data: cfg.DataOptions(true), Threads: 3, Stop: func() error { return nil }}
	o.Data.Env, o.Data.Files = o.Env, []string{name}
	if o.Recipe, err = data.NewRecipe(o.Data); err != nil {
		t.Fatal(err)
	}
	_, err = m.Run(o, &bytes.Buffer{})
	if want := "bad.csv:16283: 2 fields, but the header has 15"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	stopped := errors.New("stopped")
	o.Stop = func() error { return stopped }
	if _, err = m.Run(o, &bytes.Buffer{}); !errors.Is(err, stopped) {
		t.Errorf("%v after a stop", err)
	}
	o.SkipBad, o.Stop = true, func() error { return nil }
	var skipped []error
	o.Skipped = func(err error) { skipped = append(skipped, err) }
	r, err := m.Run(o, &bytes.Buffer{})
	if err != nil || r.Rows != 4*16281 || r.Skipped != 1 || len(skipped) != 1 {
		t.Errorf("%+v, %v, skipped %v", r, err, skipped)
	}
}
