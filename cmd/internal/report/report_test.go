package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/rng"
)

func TestRunWritesItsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	r := begun(t, dir, Beginning{Config: []byte("[job]\n")})
	r.Log().Info().Int("step", 1).Msg("hello")
	for i := range 2 {
		if err := r.Metrics(Metrics{Step: 10 * (i + 1), Loss: Number(math.NaN()), StageMS: map[string]Number{"b": 2, "a": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(Summary{Digest: "d", Steps: 20, TrainLoss: []Number{0.5, Number(math.Inf(1))}, Error: "boom"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Errorf("Close after Finish: %v", err)
		}
	}
	names := []string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "config.toml metrics.jsonl process-0.log run.lock summary.json" {
		t.Errorf("files: %s", got)
	}
	if b := readAll(t, dir, "config.toml"); b != "[job]\n" {
		t.Errorf("config.toml: %q", b)
	}
	if b := readAll(t, dir, "metrics.jsonl"); !strings.HasPrefix(b,
		`{"step":10,"loss":null,"samples_per_s":0,"step_ms":0,"stage_ms":{"a":1,"b":2},"unix_ms":`) || strings.Count(b, "\n") != 2 {
		t.Errorf("metrics.jsonl: %s", b)
	}
	if b := readAll(t, dir, "process-0.log"); !strings.Contains(b, `"message":"hello"`) || !strings.Contains(b, `"process":0`) {
		t.Errorf("log: %s", b)
	}
	checkSummary(t, readAll(t, dir, "summary.json"))
}

// begun returns a run of process 0 that has begun in a folder.
func begun(t *testing.T, dir string, b Beginning) *Run {
	t.Helper()
	r, err := Open(dir, 0)
	if err == nil {
		err = r.Begin(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A process without rank 0 appends to its log and changes no other file.
func TestOtherProcessesHaveALogOnly(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"earlier", "later"} {
		r, err := Open(dir, 3)
		if err != nil {
			t.Fatal(err)
		}
		r.Log().Info().Msg(text)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	entries, _ := os.ReadDir(dir)
	b := readAll(t, dir, "process-3.log")
	if len(entries) != 1 || strings.Count(b, "\n") != 2 || !strings.Contains(b, "earlier") || !strings.Contains(b, `"process":3`) {
		t.Errorf("%d files, log %q", len(entries), b)
	}
}

// checkSummary checks that every documented key is there, even without a value.
func checkSummary(t *testing.T, text string) {
	t.Helper()
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"digest": `"d"`, "name": `""`, "model": `""`, "hosts": "[]", "command": "[]", "resumed_from": "null", "lineage": `""`,
		"data": "null", "wall_s": "0", "commit": `""`, "version": `""`, "steps": "20", "ranks": "0", "eval": "[]",
		"recoveries": "[]", "versions": "{}", "error": `"boom"`,
		"samples_per_s": "0", "ec": "null", "cache": "null", "skipped": "0", "stopped": "false",
	} {
		if string(got[key]) != want {
			t.Errorf("summary %s is %s, want %s", key, got[key], want)
		}
	}
	for _, key := range []string{"train_loss", "step_ms", "started", "ended"} {
		if got[key] == nil {
			t.Errorf("summary has no %s", key)
		}
	}
	var loss []*float64
	if err := json.Unmarshal(got["train_loss"], &loss); err != nil || len(loss) != 2 || *loss[0] != 0.5 || loss[1] != nil {
		t.Errorf("train_loss %s (%v)", got["train_loss"], err)
	}
}

func readAll(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestUnusableFolder(t *testing.T) {
	top := t.TempDir()
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "sub"), "/proc/ecrec/run"} {
		_, err := Open(dir, 0)
		if !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), "choose another with job.out") || !strings.HasPrefix(err.Error(), dir) {
			t.Errorf("Open(%s): %v", dir, err)
		}
	}
	if err := CheckDir(filepath.Join(top, "x", "y"), "--to"); err != nil {
		t.Errorf("a folder that can be made: %v", err)
	}
	if entries, _ := os.ReadDir(top); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestQuantilesAreClose(t *testing.T) {
	const seed, n = 7, 5000
	var q Quantiles
	all := make([]time.Duration, n)
	for i := range all {
		u := rng.Draw(seed, rng.Synthetic, 0, uint64(i), 0)
		all[i] = time.Duration(uint64(u[0]) << (u[1] % 20))
		q.Add(all[i])
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	for _, p := range []float64{0, 0.01, 0.5, 0.99, 1} {
		want := all[min(int(p*n), n-1)]
		got := q.Of(p)
		if d := math.Abs(float64(got-want)) / float64(want); d > 1.0/128 {
			t.Errorf("seed %d: quantile %v is %v, want %v", seed, p, got, want)
		}
	}
}

func TestQuantilesOfFew(t *testing.T) {
	var q Quantiles
	if q.Of(0.5) != 0 {
		t.Error("the median of nothing is not 0")
	}
	for _, d := range []time.Duration{-1, 5 * time.Millisecond, math.MaxInt64} {
		q.Add(d)
	}
	if q.Of(0) != 0 || q.Of(1) != math.MaxInt64 {
		t.Errorf("ends %v and %v", q.Of(0), q.Of(1))
	}
	if ms := float64(q.StepMS().P50); ms < 4.96 || ms > 5.04 {
		t.Errorf("median %v ms, want 5", ms)
	}
	for ns := uint64(1); ns < 1<<60; ns = ns*5/4 + 1 {
		if b := bucket(ns); bucket(middle(b)) != b {
			t.Fatalf("%d ns: bucket %d has its middle %d in bucket %d", ns, b, middle(b), bucket(middle(b)))
		}
	}
}

func TestLivePlain(t *testing.T) {
	var out bytes.Buffer
	l := NewLive(&out, "step", 2000)
	written := []bool{
		l.Step(Metrics{Step: 1, Loss: 0.25, SamplesPerS: 12345.6}), // the first
		l.Step(Metrics{Step: 1500, Loss: 0.5}),                     // within a second of it
		l.Step(Metrics{Step: 2000, Loss: 0.125, SamplesPerS: 999}), // the last
	}
	l.Advance(1600) // too soon after the start for a line
	l.Line("eval %d", 1)
	l.Close()
	want := regexp.MustCompile(`^(\d\d:){2}\d\d step 1/2,000  loss 0.25000  12,345 samples/s  ETA \d+m?\d*s
(\d\d:){2}\d\d step 2,000/2,000  loss 0.12500  999 samples/s
(\d\d:){2}\d\d eval 1
$`)
	if !want.MatchString(out.String()) || !slices.Equal(written, []bool{true, false, true}) {
		t.Errorf("%v, got:\n%swant:\n%s", written, &out, want)
	}
}

// The time left follows from the steps that this process has shown, also if the run did not begin with them.
func TestLiveTimeLeft(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, "step", 10_000, false)
	l.Step(Metrics{Step: 9001})
	l.start, l.shown = l.start.Add(-100*time.Second), time.Time{}
	l.Step(Metrics{Step: 9100})
	l.shown = time.Time{}
	l.Step(Metrics{Step: 8000}) // a loss has taken the run to an earlier checkpoint
	if want := regexp.MustCompile(`step 9,100/10,000 .* ETA 15m0s\n.* step 8,000/10,000 .*samples/s\n$`); !want.MatchString(out.String()) {
		t.Errorf("got:\n%swant:\n%s", &out, want)
	}
}

// A spinner turns with the task: after its end nothing is written.
func TestSpinnerEnds(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, "waiting", 0, true)
	l.Advance(0)
	l.Close()
	n := out.Len()
	time.Sleep(250 * time.Millisecond) // more than two turns of a spinner of its own
	if n == 0 || out.Len() != n {
		t.Errorf("%d bytes when it was closed, %d later", n, out.Len())
	}
}

func TestWatched(t *testing.T) {
	for environ, want := range map[string]bool{
		"TERM=xterm HOME=/": true, "TERM=dumb": false, "CI=true": false, "CI=": true, "CI=false": true, "OMPI_COMM_WORLD_RANK=0": false,
		"PMI_RANK=0": false, "PMIX_RANK=0": false, "SLURM_PROCID=0": false, "SLURM_JOB_ID=1": true, "RANK=1": false, "FRANK=1": true,
	} {
		if got := isInteractive(strings.Fields(environ)); got != want {
			t.Errorf("%s: %v", environ, got)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 ranks", 1: "1 rank", 2: "2 ranks", 1024: "1,024 ranks"} {
		if got := Count(n, "rank"); got != want {
			t.Errorf("Count(%d) = %s", n, got)
		}
	}
}

func TestLiveOnATerminal(t *testing.T) {
	var out bytes.Buffer
	l := newLive(&out, "step", 10, true)
	for i := 1; i <= 10; i++ {
		l.Step(Metrics{Step: i, Loss: 0.5, SamplesPerS: 7})
	}
	l.Line("done %d", 10)
	l.Close()
	if s := out.String(); !strings.Contains(s, "\r") || !strings.Contains(s, "loss 0.50000") || !strings.Contains(s, "done 10\n") {
		t.Errorf("terminal got %q", s)
	}
	lines := 0
	for sc := bufio.NewScanner(&out); sc.Scan(); {
		lines++
	}
	if lines > 3 {
		t.Errorf("%d lines on a terminal, want one that is redrawn", lines)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s", n, got)
		}
	}
}

// A folder is tried with a file that has no name, which a killed process cannot leave behind.
func TestNamelessFiles(t *testing.T) {
	dir := t.TempDir()
	t.Logf("files without names: %v", makeNameless(dir))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if makeNameless(filepath.Join(dir, "missing")) {
		t.Error("a file in no folder")
	}
}
