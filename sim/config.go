package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// The training data of all runs: 3 integers and up to maxTables ids, skewed.
const (
	denseColumns = 3
	maxTables    = 4
	trainSamples = 480
	evalSamples  = 60
)

// Data is a directory with the small files on which runs train.
type Data struct {
	dir  string
	sets []string // config keys and values of every run, such as "model.kind=dlrm"

	dense []string // the columns of integers

	// LeastTables is the least number of tables that a run draws, from 1 to 4. NewData sets
	// it to 1.
	LeastTables int

	// CacheModes are the values of cache.mode that a run draws. Nil: all.
	CacheModes []string
}

// cacheModes lists the values of cache.mode to draw from.
func (d *Data) cacheModes() []string {
	if d.CacheModes != nil {
		return d.CacheModes
	}
	return []string{"none", "auto", "planned", "lrpp", "lrpp"}
}

// noDense is the config value of data without integers.
const noDense = "data.csv.dense=[]"

// NewData writes the files. All runs use the config values sets, which no run may draw
// differently. Keys that the model kind of sets does not read are left out. If noDense is one
// of sets, the data has no integers, and runs draw no bottom MLP.
func NewData(dir string, sets ...string) (*Data, error) {
	d := &Data{dir: dir, sets: sets, dense: columns("d", denseColumns), LeastTables: 1}
	if slices.Contains(sets, noDense) {
		d.dense = nil
	}
	r := rand.New(rand.NewPCG(1, purposeConfig))
	for tables := 1; tables <= maxTables; tables++ {
		if err := d.writeSamples(r, "train", trainSamples, tables); err != nil {
			return nil, err
		}
		if err := d.writeSamples(r, "eval", evalSamples, tables); err != nil {
			return nil, err
		}
		if err := os.WriteFile(d.configPath(tables), []byte(d.configText(tables)), 0o666); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Data) filePath(name string, tables int) string {
	return filepath.Join(d.dir, fmt.Sprintf("%s-%d", name, tables))
}

func (d *Data) configPath(tables int) string { return d.filePath("config", tables) + ".toml" }

func columns(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// writeSamples writes a record file.
func (d *Data) writeSamples(r *rand.Rand, name string, samples, tables int) error {
	dense, ids := d.dense, columns("c", tables)
	var b bytes.Buffer
	fmt.Fprintln(&b, strings.Join(slices.Concat([]string{"label"}, dense, ids), ","))
	for range samples {
		fmt.Fprint(&b, r.IntN(2))
		for range dense {
			fmt.Fprintf(&b, ",%d", r.IntN(20))
		}
		for range ids {
			fmt.Fprintf(&b, ",%d", r.IntN(1+r.IntN(2000)))
		}
		fmt.Fprintln(&b)
	}
	text := d.filePath(name, tables) + ".csv"
	if err := os.WriteFile(text, b.Bytes(), 0o666); err != nil {
		return err
	}
	_, err := data.Convert(data.Options{Env: env.Real(), Format: data.FormatCSV, Files: []string{text}, Threads: 1,
		CSV: data.CSV{Label: "label", Dense: dense, Categorical: ids}}, d.filePath(name, tables)+".rec")
	return err
}

func (d *Data) configText(tables int) string {
	quoted := func(names []string) string { return strings.ReplaceAll(fmt.Sprintf("%q", names), `" "`, `", "`) }
	top := "top_mlp = [1]\n"
	if d.isRefused("model.top_mlp=[1]") {
		top = ""
	}
	return fmt.Sprintf(`[job]
threads = 1
save_model = false
[data]
format = "record"
train = [%q]
eval = [%q]
[data.csv]
label = "label"
dense = %s
categorical = %s
[model]
%s[train]
iterations = 1
`, d.filePath("train", tables)+".rec", d.filePath("eval", tables)+".rec", quoted(d.dense), quoted(columns("c", tables)), top)
}

// erasureCode is the code of a run, and its ranks.
type erasureCode struct {
	code        string
	ranks, k, r int
}

// codes are those of runs whose number of ranks is drawn.
var codes = []erasureCode{
	{"xor", 2, 1, 1}, {"xor", 3, 2, 1}, {"xor", 4, 1, 1}, {"xor", 4, 3, 1}, {"xor", 5, 4, 1}, {"xor", 6, 2, 1}, {"xor", 7, 6, 1},
	{"rs", 3, 2, 1}, {"rs", 3, 1, 2}, {"rs", 4, 2, 2}, {"rs", 5, 3, 2}, {"rs", 6, 4, 2}, {"rs", 7, 5, 2}, {"rs", 7, 2, 2},
}

// The modes of runs. In safety anything may fail, and the job must end with the right
// result or with an error about unrecoverable losses. In liveness there are
// never more concurrent failures than the code tolerates, and the faults end, so that the
// job must finish.
const (
	Safety   = "safety"
	Liveness = "liveness"
)

// Options restrict the runs of all seeds.
type Options struct {
	// Mode is one of the modes, or empty for the one that the seed draws.
	Mode string
	// Ranks is the number of ranks, from LeastRanks on, or 0 for the number that the seed draws: 2 to 9. The time of a
	// run grows with its square.
	Ranks int
	// Focus is the kind of all faults, such as "corrupt packet", or Restores. Empty: the seed draws the kind of each.
	Focus string
}

// Restores is the focus of runs that save checkpoints, and whose workers are killed: more than the code tolerates, and then more while a
// checkpoint is restored. They have mode safety.
const Restores = "restores"

// LeastRanks is the least number of ranks that a code protects.
const LeastRanks = 2

// setting is a drawn configuration. One part, the model and its training, determines the
// result. The other part must not change it.
type setting struct {
	tables      int
	ranks       int
	owners      int
	trainers    int      // if dedicated servers own the rows, otherwise 0
	exact, free []string // config keys and values
	processes   int
	spares      int    // hosts
	linked      bool   // processes communicate over connections, otherwise through one memory
	delays      string // of messages
	slowest     time.Duration
	lossy       float64 // of messages to and from the register
	rebuildRows int     // rows that each step rebuilds
	safety      bool    // more may be lost than the code tolerates
	focus       string  // of the faults
	saves       saves
	stores      bool // logs of commits
	streams     bool // to a topic
	samples     bool // from a topic
	frames      int  // rows of a rank that are in memory, if the others are on its disk
	steps       int64
}

// drawCode draws the code of a run with a given number of ranks.
func drawCode(r *rand.Rand, ranks int) erasureCode {
	for {
		c := erasureCode{ec.RS, ranks, 1 + r.IntN(8), 1 + r.IntN(2)}
		if c.r == 1 && r.IntN(2) == 0 {
			c.code = ec.XOR
		}
		if _, err := ec.NewLayout(ranks, c.k, c.r); err == nil {
			return c
		}
	}
}

// drawSetting draws the setting of a run.
func (d *Data) drawSetting(r *rand.Rand, o Options) setting {
	mode := o.Mode
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	code := codes[r.IntN(len(codes))]
	if o.Ranks > 0 {
		code = drawCode(r, o.Ranks)
	}
	s := setting{tables: d.LeastTables + r.IntN(maxTables-d.LeastTables+1), ranks: code.ranks, owners: code.ranks,
		steps: 3 + r.Int64N(20), processes: code.ranks}
	var roles []string
	if s.ranks <= 5 && r.IntN(4) == 0 { // servers, trainers and readers
		trainers, readers := 1+r.IntN(3), r.IntN(2)
		roles = []string{fmt.Sprint("ranks.servers=", s.ranks), fmt.Sprint("ranks.trainers=", trainers), fmt.Sprint("ranks.readers=", readers)}
		s.ranks += trainers + readers
		s.trainers = trainers
		s.processes = s.ranks
	}
	var rows []string
	for range s.tables {
		rows = append(rows, pick("1", "3", "17", "60", "200", "700", "2000"))
	}
	dim, batch := pick("1", "2", "4"), s.ranks+r.IntN(12)
	if r.IntN(3) == 0 { // enough rows for a rebuild of several steps
		batch = max(60, s.ranks)
	}
	s.exact = []string{fmt.Sprintf("job.ranks=%d", s.ranks), "model.tables=[" + strings.Join(rows, ",") + "]",
		"job.seed=" + fmt.Sprint(r.IntN(1000)), "model.embedding_dim=" + dim, "model.bottom_mlp=[" + pick("", "3,") + dim + "]",
		"train.global_batch=" + fmt.Sprint(batch), fmt.Sprint("train.iterations=", s.steps), "data.shuffle=" + pick("none", "block"),
		"optimizer.sparse.kind=" + pick(kernels.RuleNames(false)...),
		"optimizer.dense.kind=" + pick(kernels.RuleNames(true)...),
		"train.eval_every=" + pick("0", "0", "3", "5", "8")}
	s.exact = append(s.exact, roles...)
	s.free = []string{"ec.code=" + code.code, fmt.Sprint("ec.k=", code.k), fmt.Sprint("ec.r=", code.r),
		withDigests, "ec.commit_every=" + pick("1", "1", "2", "3", "5", "10"), "cache.mode=" + pick(d.cacheModes()...),
		"oracle.lookahead=" + pick("1", "2", "5", "50"), fmt.Sprint("cache.delayed_sync=", r.IntN(4) > 0)}
	if code.r > 1 && r.IntN(3) == 0 { // two ranks in a process
		s.processes = (s.ranks + 1) / 2
	}
	if r.IntN(3) == 0 {
		s.delays = pick("delay(3ms, p=0.1)", "delay(200us)", "delay(50ms, p=0.02)")
	}
	s.rebuildRows = 1 + r.IntN(1+r.IntN(20))
	s.safety = r.IntN(4) == 0
	if s.focus = o.Focus; s.focus == Restores {
		mode = Safety
	}
	if mode != "" {
		s.safety = mode == Safety
	}
	s.spares, s.linked = r.IntN(1+r.IntN(3)), r.IntN(3) > 0
	if k := kindNamed(s.focus); k != nil && k.linked {
		s.linked = true
	}
	s.slowest = time.Duration(1+r.Int64N(20)) * time.Millisecond
	s.lossy = []float64{0, 0.02, 0.1}[r.IntN(3)]
	s.exact = append(s.exact, drawVerdicts(r, slices.Contains(s.exact, "train.eval_every=0"))...)
	s.drawSaving(r)
	if s.safety {
		s.lossy *= 4
	}
	if r.IntN(4) == 0 { // drawn last, as verdicts are drawn late
		s.free[slices.Index(s.free, withDigests)] = "job.digests=false"
	}
	return s
}

const withDigests = "job.digests=true"

// drawVerdicts draws the decisions of a run on its evaluations. They are drawn late, so that other draws stay the same.
func drawVerdicts(r *rand.Rand, last bool) []string {
	sets := []string{"train.best_by=" + []string{"logloss", "auc"}[r.IntN(2)]}
	if !last && r.IntN(3) == 0 {
		sets = append(sets, fmt.Sprint("train.plateau_patience=", 1+r.IntN(2)), fmt.Sprint("train.patience=", r.IntN(4)))
	}
	return sets
}

// String describes the setting in a failure report.
func (s *setting) String() string {
	text := strings.Join(append(append([]string{}, s.exact...), s.free...), " ")
	if s.focus != "" {
		text = fmt.Sprintf("focus %q, %s", s.focus, text)
	}
	mode, net := Liveness, "shared memory"
	if s.safety {
		mode = Safety
	}
	if s.linked {
		net = "connections"
	}
	return fmt.Sprintf("mode %s, %d processes, %d spares, %s, message delays %q, register delay up to %v, register loss %v, %d rows rebuilt per step, %s, logs %t, %d frames, stream %t, samples from a topic %t, %s",
		mode, s.processes, s.spares, net, s.delays, s.slowest, s.lossy, s.rebuildRows, &s.saves, s.stores, s.frames, s.streams, s.samples, text)
}

// loadConfig returns the config of a run.
func (s *setting) loadConfig(d *Data, sets ...string) (*config.Config, error) {
	exact := slices.DeleteFunc(slices.Clone(s.exact), d.isRefused)
	return config.Load(d.configPath(s.tables), slices.Concat([]string{"job.out=" + d.dir}, d.sets, exact, sets))
}

// isRefused reports whether a set has a key that only other model kinds than that of all runs
// read, or gives layers to numbers that the data does not have.
func (d *Data) isRefused(set string) bool {
	key, _, _ := strings.Cut(strings.TrimPrefix(set, "model."), "=")
	if key == "bottom_mlp" && d.dense == nil {
		return true
	}
	for _, k := range model.Kinds {
		if slices.Contains(d.sets, "model.kind="+k.Name) {
			return !k.Reads(key) && slices.ContainsFunc(model.Kinds, func(other model.Kind) bool { return other.Reads(key) })
		}
	}
	return false
}
