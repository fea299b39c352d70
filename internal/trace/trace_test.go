package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// parsed is an event as a reader of the format parses it.
type parsed struct {
	Name    string   `json:"name"`
	Phase   string   `json:"ph"`
	Process int      `json:"pid"`
	Track   int      `json:"tid"`
	TS      *float64 `json:"ts"`
	Dur     float64  `json:"dur"`
	Args    struct {
		Name    string `json:"name"`
		Dropped int64  `json:"dropped"`
		Step    int64  `json:"step"`
	} `json:"args"`
}

func (p parsed) end() float64 { return *p.TS + p.Dur }

func read(t *testing.T, path string) (all []parsed) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []parsed `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return file.TraceEvents
}

// checkForm checks that every span is on a named track of a named process, and
// that spans of a track are in order, nested or disjoint.
func checkForm(t *testing.T, all []parsed) (spans []parsed) {
	t.Helper()
	processes, tracks, open := map[int]bool{}, map[[2]int]bool{}, map[[2]int][]parsed{}
	for _, p := range all {
		id := [2]int{p.Process, p.Track}
		switch {
		case p.Phase == "M" && p.Name == "process_name":
			if processes[p.Process] || p.Args.Name != fmt.Sprintf("process %d", p.Process) {
				t.Errorf("%+v", p)
			}
			processes[p.Process] = true
		case p.Phase == "M" && p.Name == "thread_name":
			if tracks[id] || p.Args.Name == "" {
				t.Errorf("%+v", p)
			}
			tracks[id] = true
		case p.Phase == "X":
			if !processes[p.Process] || !tracks[id] || p.TS == nil || p.Dur < 0 {
				t.Fatalf("%+v", p)
			}
			const rounding = 1e-3
			stack := open[id]
			for len(stack) > 0 && stack[len(stack)-1].end() <= *p.TS+rounding {
				stack = stack[:len(stack)-1]
			}
			if n := len(stack); n > 0 && (p.end() > stack[n-1].end()+rounding || *p.TS < *stack[n-1].TS) {
				t.Fatalf("%+v crosses %+v", p, stack[n-1])
			}
			open[id] = append(stack, p)
			spans = append(spans, p)
		default:
			t.Errorf("%+v", p)
		}
	}
	return spans
}

func TestSpansAreNestedAndInOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := New(env.Real())
	const tracks, spans = 3, 200
	for i := range tracks {
		track := r.Track(i%2, fmt.Sprintf("track %d \"quoted\"", i))
		depth := 0
		for n := 0; n < spans || depth > 0; {
			if n < spans && depth < 5 && random.IntN(2) == 0 {
				track.Begin(fmt.Sprintf("depth %d", depth), int64(n))
				depth++
				n++
			} else if depth > 0 {
				depth--
				track.End()
			}
		}
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := r.WriteFile(path, 0); err != nil {
		t.Fatal(err)
	}
	if got := checkForm(t, read(t, path)); len(got) != tracks*spans {
		t.Errorf("%d spans, want %d", len(got), tracks*spans)
	}
}

func TestTimesAndSteps(t *testing.T) {
	e := env.Real()
	r := New(e)
	track := r.Track(4, "compute")
	e.Sleep(time.Millisecond)
	r.Zero()
	zero := r.zero
	track.Span("inner", 7, zero+1500*time.Nanosecond, zero+2*time.Microsecond)
	track.Span("outer", 7, zero+1500*time.Nanosecond, zero+3*time.Microsecond)
	track.Span("before", 6, zero-1001*time.Nanosecond, zero-time.Nanosecond)
	e.Sleep(time.Millisecond)
	track.Begin("has not ended", 8)
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := r.WriteFile(path, 0); err != nil {
		t.Fatal(err)
	}
	got := checkForm(t, read(t, path))
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct {
		name    string
		step    int64
		ts, dur float64
	}{{"before", 6, -1.001, 1}, {"outer", 7, 1.5, 1.5}, {"inner", 7, 1.5, 0.5}} {
		if g := got[i]; g.Name != want.name || g.Args.Step != want.step || *g.TS != want.ts || g.Dur != want.dur || g.Process != 4 {
			t.Errorf("%+v at %v, want %+v", g, *g.TS, want)
		}
	}
	if got[3].Name != "has not ended" || got[3].Args.Step != 8 {
		t.Errorf("%+v", got[3])
	}
	track.End()
}

func TestOldSpansAreDroppedAndCounted(t *testing.T) {
	r := New(env.Real())
	full, few := r.Track(0, "full"), r.Track(0, "few")
	const more = 1000
	for i := range maxSpans + more {
		full.Span("s", int64(i), time.Duration(i), time.Duration(i+1))
	}
	few.Span("s", 1, 0, 1)
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := r.WriteFile(path, 0); err != nil {
		t.Fatal(err)
	}
	all := read(t, path)
	if spans := checkForm(t, all); len(spans) != maxSpans+1 || spans[0].Args.Step != more || spans[maxSpans-1].Args.Step != maxSpans+more-1 {
		t.Errorf("%d spans, from step %d to %d", len(spans), spans[0].Args.Step, spans[len(spans)-2].Args.Step)
	}
	for _, p := range all {
		if want := map[string]int64{"full": more}[p.Args.Name]; p.Name == "thread_name" && p.Args.Dropped != want {
			t.Errorf("%s: %d dropped, want %d", p.Args.Name, p.Args.Dropped, want)
		}
	}
}

// Each part is a trace. Merge joins them and leaves no other file. A part of a process of an
// earlier run is not merged.
func TestPartsMerge(t *testing.T) {
	const processes = 3
	t.Run("without process 0", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "trace")
		for p := range processes {
			r := New(env.Real())
			r.Track(p, "rank").Span("s", 1, 0, 1)
			if err := r.WriteFile(path, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := Merge(path, []int{1, 2}); err != nil {
			t.Fatal(err)
		}
		if got := checkForm(t, read(t, path)); len(got) != 2 || got[0].Process != 1 || got[1].Process != 2 {
			t.Errorf("%+v", got)
		}
	})
	dir := t.TempDir()
	path := filepath.Join(dir, "run.trace.json")
	for p := range processes {
		r := New(env.Real())
		for rank := range 2 {
			track := r.Track(p, fmt.Sprintf("rank %d", processes*rank+p))
			track.Begin("step", int64(p))
			track.End()
		}
		if err := r.WriteFile(path, p); err != nil {
			t.Fatal(err)
		}
		if got := checkForm(t, read(t, PartPath(path, p))); len(got) != 2 {
			t.Errorf("part %d: %+v", p, got)
		}
	}
	if PartPath(path, 2) != filepath.Join(dir, "run.trace.2.json") || PartPath("trace", 1) != "trace.1" {
		t.Errorf("parts are named %s and %s", PartPath(path, 2), PartPath("trace", 1))
	}
	if err := Merge(path, []int{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	got := checkForm(t, read(t, path))
	for i, p := range got {
		if p.Process != i/2 || p.Args.Step != int64(i/2) {
			t.Errorf("%+v", p)
		}
	}
	if entries, err := os.ReadDir(dir); len(got) != 2*processes || len(entries) != 1 || err != nil {
		t.Errorf("%d spans; %v, %v", len(got), entries, err)
	}
}

func TestMergeRefusesWhatIsNoPart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.json")
	r := New(env.Real())
	r.Track(0, "rank 0").Span("s", 1, 0, 1)
	if err := r.WriteFile(path, 0); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for _, text := range []string{"", "{}", `{"traceEvents":[{`, `{"traceEvents":[1 2]}`, "no trace"} {
		if err := os.WriteFile(PartPath(path, 1), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Merge(path, []int{0, 1}); err == nil || !strings.Contains(err.Error(), PartPath(path, 1)) {
			t.Errorf("%q: %v", text, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Fatalf("%q: the trace has changed", text)
		}
	}
	os.Remove(PartPath(path, 1))
	if err := Merge(path, []int{0, 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part that is not there: %v", err)
	}
	if err := r.WriteFile(filepath.Join(dir, "none", "trace.json"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestNilRecordsNothing(t *testing.T) {
	var r *Recorder
	r.Zero()
	track := r.Track(0, "none")
	if track != nil {
		t.Error("a nil Recorder gives a track")
	}
	if n := testing.AllocsPerRun(100, func() {
		track.Begin("a", 1)
		track.Span("b", 1, 0, 1)
		track.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := r.WriteFile(path, 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a nil Recorder writes: %v", err)
	}
}

func TestUnpairedSpansAreBugs(t *testing.T) {
	mustPanic := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", what)
			}
		}()
		f()
	}
	track := New(env.Real()).Track(0, "t")
	mustPanic("End without Begin", func() { track.End() })
	mustPanic("Begin without End", func() {
		for range maxDepth + 1 {
			track.Begin("s", 0)
		}
	})
}
