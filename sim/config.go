package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
)

// The data that all runs train on: 3 integers and up to maxTables ids, skewed.
const (
	denseColumns = 3
	maxTables    = 4
	trainSamples = 480
	evalSamples  = 60
)

// Data is small files that runs train on, in a folder.
type Data struct{ dir string }

// NewData writes them.
func NewData(dir string) (*Data, error) {
	d := &Data{dir}
	r := rand.New(rand.NewPCG(1, purposeConfig))
	for tables := 1; tables <= maxTables; tables++ {
		if err := d.write(r, "train", trainSamples, tables); err != nil {
			return nil, err
		}
		if err := d.write(r, "eval", evalSamples, tables); err != nil {
			return nil, err
		}
		if err := os.WriteFile(d.config(tables), []byte(d.toml(tables)), 0o666); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Data) file(name string, tables int) string {
	return filepath.Join(d.dir, fmt.Sprintf("%s-%d", name, tables))
}

func (d *Data) config(tables int) string { return d.file("config", tables) + ".toml" }

func columns(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// write makes the record file of some samples.
func (d *Data) write(r *rand.Rand, name string, samples, tables int) error {
	dense, ids := columns("d", denseColumns), columns("c", tables)
	var b bytes.Buffer
	fmt.Fprintf(&b, "label,%s,%s\n", strings.Join(dense, ","), strings.Join(ids, ","))
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
	text := d.file(name, tables) + ".csv"
	if err := os.WriteFile(text, b.Bytes(), 0o666); err != nil {
		return err
	}
	_, err := data.Convert(data.Options{Env: env.Real(), Format: data.FormatCSV, Files: []string{text}, Threads: 1,
		CSV: data.CSV{Label: "label", Dense: dense, Categorical: ids}}, d.file(name, tables)+".rec")
	return err
}

func (d *Data) toml(tables int) string {
	quoted := func(names []string) string { return `["` + strings.Join(names, `", "`) + `"]` }
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
top_mlp = [1]
[train]
iterations = 1
`, d.file("train", tables)+".rec", d.file("eval", tables)+".rec", quoted(columns("d", denseColumns)), quoted(columns("c", tables)))
}

// codes are what runs are protected with: ranks, k, r.
var codes = []struct {
	code        string
	ranks, k, r int
}{
	{"xor", 2, 1, 1}, {"xor", 3, 2, 1}, {"xor", 4, 1, 1}, {"xor", 4, 3, 1}, {"xor", 5, 4, 1}, {"xor", 6, 2, 1}, {"xor", 7, 6, 1},
	{"rs", 3, 2, 1}, {"rs", 3, 1, 2}, {"rs", 4, 2, 2}, {"rs", 5, 3, 2}, {"rs", 6, 4, 2}, {"rs", 7, 5, 2}, {"rs", 7, 2, 2},
}

// setting is a drawn config: of the model and how it is trained, which the result
// depends on; and of all that must not change it.
type setting struct {
	tables      int
	ranks       int
	owners      int
	trainers    int      // where servers own the rows, else 0
	exact, free []string // config keys and values
	processes   int
	spares      int    // machines
	linked      bool   // processes talk over connections, else through one memory
	delays      string // of messages
	slowest     time.Duration
	lossy       float64 // of messages to and from the register
	repair      int     // rows that a step rebuilds
	safety      bool    // more may be lost than the code makes good
	saves       bool    // checkpoints
	steps       int64
}

// drawSetting draws what a run is of; mode is safety, liveness, or either.
func drawSetting(r *rand.Rand, mode string) setting {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	code := codes[r.IntN(len(codes))]
	s := setting{tables: 1 + r.IntN(maxTables), ranks: code.ranks, owners: code.ranks, steps: 3 + r.Int64N(20), processes: code.ranks}
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
	if r.IntN(3) == 0 { // rows enough for a rebuild of some steps
		batch = 60
	}
	s.exact = []string{fmt.Sprintf("job.ranks=%d", s.ranks), "model.tables=[" + strings.Join(rows, ",") + "]",
		"job.seed=" + fmt.Sprint(r.IntN(1000)), "model.embedding_dim=" + dim, "model.bottom_mlp=[" + pick("", "3,") + dim + "]",
		"train.global_batch=" + fmt.Sprint(batch), fmt.Sprint("train.iterations=", s.steps), "data.shuffle=" + pick("none", "block"),
		"optimizer.sparse.kind=" + pick("sgd", "momentum", "adagrad", "rowwise_adagrad", "adam"),
		"optimizer.dense.kind=" + pick("sgd", "momentum", "adagrad", "adam"),
		"train.eval_every=" + pick("0", "0", "3", "5", "8")}
	s.exact = append(s.exact, roles...)
	s.free = []string{"ec.code=" + code.code, fmt.Sprint("ec.k=", code.k), fmt.Sprint("ec.r=", code.r),
		"ec.commit_every=" + pick("1", "1", "2", "3", "5", "10"), "cache.mode=" + pick("none", "auto", "planned", "lrpp", "lrpp"),
		"oracle.lookahead=" + pick("1", "2", "5", "50"), fmt.Sprint("cache.delayed_sync=", r.IntN(4) > 0)}
	if code.r > 1 && r.IntN(3) == 0 { // two ranks in a process
		s.processes = (s.ranks + 1) / 2
	}
	if r.IntN(3) == 0 {
		s.delays = pick("delay(3ms, p=0.1)", "delay(200us)", "delay(50ms, p=0.02)")
	}
	s.repair = 1 + r.IntN(1+r.IntN(20))
	s.safety = r.IntN(4) == 0
	if mode != "" {
		s.safety = mode == Safety
	}
	s.spares, s.linked = r.IntN(1+r.IntN(3)), r.IntN(3) > 0
	s.slowest = time.Duration(1+r.Int64N(20)) * time.Millisecond
	s.lossy = []float64{0, 0.02, 0.1}[r.IntN(3)]
	if s.safety {
		s.lossy *= 4
	}
	return s
}

// String is what is to be told of a setting.
func (s *setting) String() string {
	text := strings.Join(append(append([]string{}, s.exact...), s.free...), " ")
	mode, net := Liveness, "one memory"
	if s.safety {
		mode = Safety
	}
	if s.linked {
		net = "connections"
	}
	return fmt.Sprintf("%s, %d processes, %d spares, %s, delays %q, register within %v and %v lost, %d rows rebuilt a step, checkpoints %t, %s",
		mode, s.processes, s.spares, net, s.delays, s.slowest, s.lossy, s.repair, s.saves, text)
}

// load makes the config of a run.
func (s *setting) load(d *Data, sets ...string) (*config.Config, error) {
	return config.Load(d.config(s.tables), append(append([]string{"job.out=" + d.dir}, s.exact...), sets...))
}
