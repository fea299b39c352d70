package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/predict"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// silent observes nothing.
type silent struct{ train.Observer }

func (silent) Started(train.Info) error          { return nil }
func (silent) Step(train.StepInfo)               {}
func (silent) Evaluated(train.Eval)              {}
func (silent) Checkpointed(int64, string, error) {}
func (silent) Committed(int64, string)           {}
func (silent) Warned(string)                     {}
func (silent) SkippedCheckpoint(string, error)   {}

// run is a run that was trained, with its topic.
type run struct {
	cfg    *config.Config
	recipe *data.Recipe
	topic  stream.Topic
}

// trained trains a run of some steps. It sends its commits to a topic.
func trained(t testing.TB, cfg *config.Config) *run {
	t.Helper()
	return trainedTo(t, cfg, stream.NewMemory(env.Real()))
}

func trainedTo(t testing.TB, cfg *config.Config, topic stream.Topic) *run {
	t.Helper()
	r := &run{cfg: cfg, topic: topic}
	o := cfg.DataOptions(false)
	o.Env, o.RecordDir = env.Real(), t.TempDir()
	var err error
	if cfg.Model.Tables.IsCounted() || len(o.CSV.Transform) > 0 {
		if r.recipe, err = data.Fit(o); err == nil {
			cfg = cfg.Resolve(r.recipe)
		}
	} else {
		r.recipe, err = data.NewRecipe(o)
	}
	must(t, err)
	r.cfg = cfg
	_, err = train.Run(env.Real(), cfg, train.Options{Stop: func() bool { return false }, Observer: silent{}, Recipe: r.recipe,
		Progress: func(data.Progress) error { return nil }, Topic: func(env.Env, string) (stream.Topic, error) { return r.topic, nil }})
	must(t, err)
	return r
}

// loadText loads a config.
func loadText(t testing.TB, dir, text string, sets ...string) *config.Config {
	t.Helper()
	path := filepath.Join(dir, "run.toml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return load(t, path, sets...)
}

func load(t testing.TB, path string, sets ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.ranks=2", "ec.code=none", "stream.to=file:unused", "ec.commit_every=5",
		"job.out=" + t.TempDir()}, sets...))
	must(t, err)
	return cfg
}

// newServer returns a server on a free port, until the end of the test.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	s, err := New(o)
	must(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serveAt follows a run up to a step with a server. It returns the checkpoint of the step too.
func (r *run) serveAt(t testing.TB, s *Server, at int64) (checkpoint string) {
	t.Helper()
	dir := t.TempDir()
	f := r.follow(t, s, dir, at)
	must(t, f.Run())
	return filepath.Join(dir, fmt.Sprintf("step-%012d", at))
}

// follow opens a follower that publishes to a server.
func (r *run) follow(t testing.TB, s *Server, dir string, at int64) *follow.Follower {
	t.Helper()
	began := time.Now()
	f, err := follow.Open(follow.Options{Env: env.Real(), Topic: r.topic, Dir: dir, At: at, Keep: 2,
		Stop:    func() bool { return time.Since(began) > time.Minute },
		Publish: s.Publish, Report: s.Applied})
	must(t, err)
	t.Cleanup(f.Close)
	return f
}

// followEnv is the environment of followers.
var followEnv = env.Real()

// damage changes a bit of a row of the epoch up to a step, in a frame whose sum is right.
func (r *run) damage(t testing.TB, step uint64) {
	t.Helper()
	changed := 0
	r.topic.(*stream.Memory).Change(1, func(list []stream.Record) []stream.Record {
		for _, x := range list {
			if b := x.Bytes; b[6] == 1 && binary.LittleEndian.Uint64(b[56:]) == step {
				b[len(b)-1] ^= 4
				binary.LittleEndian.PutUint64(b[72:], xxh3.HashSeed(b[80:], xxh3.Hash(b[:72])))
				changed++
			}
		}
		return list
	})
	if changed != 1 {
		t.Fatalf("%d frames changed", changed)
	}
}

// predicted returns the scores that package predict writes for files and a checkpoint, the first n of them.
func (r *run) predicted(t testing.TB, checkpoint string, n int, files ...string) []string {
	t.Helper()
	m, err := predict.Load(env.Real(), r.cfg, "", checkpoint)
	must(t, err)
	defer m.Close()
	var out bytes.Buffer
	enough := errors.New("enough")
	o := predict.Options{Env: env.Real(), Data: r.cfg.DataOptions(true), Recipe: r.recipe, Threads: 1, Stop: func() error {
		if bytes.Count(out.Bytes(), []byte("\n")) > n {
			return enough
		}
		return nil
	}}
	o.Data.Env, o.Data.Files, o.Data.Recipe = o.Env, files, r.recipe
	if _, err := m.Run(o, &out); err != nil && !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")[1:][:n]
}

// call sends a request, and returns the status and the reply.
func call(t testing.TB, s *Server, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.Addr()+path, strings.NewReader(body))
	must(t, err)
	a, err := http.DefaultClient.Do(r)
	must(t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	must(t, err)
	return a.StatusCode, strings.TrimSpace(string(text))
}

// prediction is the reply to a request for predictions.
type prediction struct {
	Step    int64
	Digest  string
	Lineage string
	Scores  []json.Number
}

// scores sends rows in requests of several sizes, and returns the scores.
func scores(t testing.TB, s *Server, rows []string) (all []string) {
	t.Helper()
	for size := 1; len(rows) > 0; size = size*3 + 1 {
		n := min(size, len(rows))
		status, text := call(t, s, "POST", "/v1/predict", `{"rows":[`+strings.Join(rows[:n], ",")+"]}")
		var p prediction
		if err := json.Unmarshal([]byte(text), &p); status != 200 || err != nil || len(p.Scores) != n || p.Digest != s.model.current.Load().Digest {
			t.Fatalf("%d: %s (%v)", status, text, err)
		}
		for _, x := range p.Scores {
			all = append(all, x.String())
		}
		rows = rows[n:]
	}
	return all
}

// sameScores compares scores. They have one form in the replies of the server and in the files of ecrec predict.
func sameScores(t testing.TB, have, want []string) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%d scores, want %d", len(have), len(want))
	}
	for i := range have {
		if have[i] != want[i] {
			t.Fatalf("row %d: the score is %s, ecrec predict has %s", i+1, have[i], want[i])
		}
	}
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(have)))); distinct < len(have)/3 {
		t.Errorf("%d distinct scores of %d rows", distinct, len(have))
	}
}

// rowsOf makes JSON of the rows of a CSV file, of different forms of the same values.
func rowsOf(t testing.TB, file string, bags ...string) (rows []string) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	must(t, err)
	for i, line := range lines[1:] {
		var fields []string
		for k, text := range line {
			value, err := json.Marshal(text)
			must(t, err)
			switch {
			case slices.Contains(bags, lines[0][k]) && i%3 == 0 && text != "none":
				list := strings.Split(text, "|")
				if text == "" {
					list = []string{}
				}
				value, err = json.Marshal(list)
				must(t, err)
			case text == "" && i%2 == 0:
				value = []byte("null")
			case i%3 == 1 && json.Valid([]byte(text)):
				value = []byte(text) // a number
			case i%5 == 4 && text != "": // its first byte as an escape
				value = fmt.Appendf(nil, `"\u%04x%s`, []rune(text)[0], strings.TrimPrefix(string(value), `"`+string([]rune(text)[0])))
			}
			fields = append(fields, fmt.Sprintf("%q: %s", lines[0][k], value))
		}
		if i%4 == 3 {
			slices.Reverse(fields)
			fields = append(fields, `"other": {"a": [1, {"b": []}, "]}"]}`)
		}
		rows = append(rows, "{"+strings.Join(fields, ", ")+"}")
	}
	return rows
}
