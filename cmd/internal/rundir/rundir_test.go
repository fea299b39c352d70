package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden texts")

var now = time.Date(2026, 3, 1, 12, 10, 0, 0, time.UTC)

// folder returns the files of an archive without the golden text. A file with "torn" in the comment
// has no line end at its end.
func folder(a *txtar.Archive) fstest.MapFS {
	dir := fstest.MapFS{}
	for _, f := range a.Files {
		if f.Name != "want" {
			dir[f.Name] = &fstest.MapFile{Data: bytes.TrimSuffix(f.Data, []byte("TORN\n"))}
		}
	}
	return dir
}

var locks = map[string]Lock{"held": LockHeld, "free": LockFree, "unknown": LockUnknown}

// Each file of testdata is the folder of a run and the output of WriteStatus. Its comment gives the
// state of the lock.
func TestStatus(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, lock, _ := strings.Cut(string(a.Comment), "lock: ")
			r, err := Read(folder(a), locks[strings.TrimSpace(lock)], now)
			if err != nil {
				t.Fatal(err)
			}
			r.Path = "runs/x"
			var got bytes.Buffer
			r.WriteStatus(&got, now)
			WriteTable(&got, []*Run{r})
			last := len(a.Files) - 1
			if a.Files[last].Name != "want" {
				a.Files, last = append(a.Files, txtar.File{Name: "want"}), last+1
			}
			if *update {
				a.Files[last].Data = got.Bytes()
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(a.Files[last].Data); got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

// A run whose files are truncated anywhere has a state.
func TestEveryCut(t *testing.T) {
	a, err := txtar.ParseFile("testdata/running.txtar")
	if err != nil {
		t.Fatal(err)
	}
	whole := folder(a)
	for name, f := range whole {
		for cut := range len(f.Data) {
			dir := fstest.MapFS{}
			for n, f := range whole {
				dir[n] = f
			}
			dir[name] = &fstest.MapFile{Data: f.Data[:cut]}
			if _, err := Read(dir, LockHeld, now); err != nil {
				t.Fatalf("%s cut to %d bytes: %v", name, cut, err)
			}
		}
		delete(whole, name)
		if _, err := Read(whole, LockHeld, now); err != nil && len(whole) > 1 && IsRun(whole) {
			t.Errorf("without %s: %v", name, err)
		}
		whole[name] = f
	}
}

func TestNoRun(t *testing.T) {
	for _, dir := range []fs.FS{fstest.MapFS{}, fstest.MapFS{"config.toml": {}}, fstest.MapFS{"summary.json": {Mode: fs.ModeNamedPipe}}} {
		if _, err := Read(dir, LockFree, now); err != ErrNoRun {
			t.Errorf("%v: %v", dir, err)
		}
	}
}

func TestFindAndDiffers(t *testing.T) {
	dir := fstest.MapFS{
		"a/summary.json": {}, "a/checkpoints/step-1/summary.json": {}, "grid/lr-1/metrics.jsonl": {}, "grid/lr-2/events.jsonl": {},
		"photos/cat.jpg": {}, ".git/summary.json": {}, "file": {},
	}
	runs, foreign := Find(dir)
	if want := []string{"a", "grid/lr-1", "grid/lr-2"}; !slices.Equal(runs, want) || !slices.Equal(foreign, []string{"photos"}) {
		t.Errorf("runs %v, foreign %v", runs, foreign)
	}
	config := func(s string) *Run {
		r, err := Read(fstest.MapFS{"summary.json": {Data: []byte("{}")}, "config.toml": {Data: []byte(s)}}, LockFree, now)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	x, y := config("[job]\nname = 'a'\nseed = 1\n[train]\nepochs = 2\n"), config("[job]\nname = 'b'\nseed = 2\n[model]\ntables = [1, 2]\n")
	if got := Differs(x, y); !slices.Equal(got, []string{"job.seed=2", "model.tables=[1 2]", "train.epochs="}) {
		t.Errorf("differs: %v", got)
	}
	x.Started, y.Started = now, now.Add(-time.Hour)
	all := []*Run{{Path: "z"}, x, y}
	if Sort(all); all[0] != y || all[1] != x {
		t.Error("runs are not in the order of their start")
	}
}

// The tail of a long file consists of complete lines.
func TestTail(t *testing.T) {
	text := strings.Repeat(`{"step":1,"samples_per_s":1}`+"\n", 1<<14) + `{"step":9,"samples_per_s":7}` + "\n" + `{"st`
	r := &Run{}
	r.takeMetrics(fstest.MapFS{metricsFile: {Data: []byte(text)}}, metricsFile)
	if r.Step != 9 {
		t.Errorf("step %d", r.Step)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, metricsFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := tail(os.DirFS(dir), metricsFile, 100)
	if err != nil || strings.Count(string(got), "\n") < 2 || len(got) > 100 || got[0] != '{' {
		t.Errorf("%v: %q", err, got)
	}
}

// Find once blocked on a FIFO in a folder below, which it opened to find its type.
func TestFindPassesOverAFIFO(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o700), unix.Mkfifo(filepath.Join(dir, "a", summaryFile), 0o600)); err != nil {
		t.Fatal(err)
	}
	if runs, foreign := Find(os.DirFS(dir)); len(runs) != 0 || !slices.Equal(foreign, []string{"a"}) {
		t.Errorf("runs %q, none in %q", runs, foreign)
	}
}

// A line without an end was once read into memory, whatever its length.
func TestSeriesSkipsLongLines(t *testing.T) {
	point := `{"step":%d,"samples_per_s":1,"x":"%s"}` + "\n"
	text := fmt.Sprintf(point, 1, "") + fmt.Sprintf(point, 2, strings.Repeat("x", 1<<20)) + fmt.Sprintf(point, 3, "")
	s := ReadSeries(fstest.MapFS{metricsFile: {Data: []byte(text)}})
	if len(s.Points) != 2 || s.Points[0].Step != 1 || s.Points[1].Step != 3 {
		t.Errorf("%+v", s.Points)
	}
}

// One line with such a time once made ecrec runs --json fail for all runs.
func TestTimeThatJSONLacks(t *testing.T) {
	r, err := Read(fstest.MapFS{metricsFile: {Data: []byte(`{"step":1,"samples_per_s":1,"unix_ms":1000000000000000}` + "\n")}}, LockFree, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
