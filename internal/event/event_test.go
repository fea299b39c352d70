package event

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var noon = At(time.Date(2026, 3, 1, 12, 0, 0, 120e6, time.UTC))

func TestLineHasItsKeysInOrder(t *testing.T) {
	line, err := Line(Event{Time: noon, Event: Loss, Step: 7, Process: Number(0), Rank: Number(0), Ranks: []int{0, 4}, Node: "n3", PID: 12,
		Cause: "was ended by signal 9", Generation: 2, ReplacedBy: &Process{Process: 5, Node: "n6", PID: 99}, ResumeMS: 1.5})
	const want = `{"time":"2026-03-01T12:00:00.120Z","event":"loss","step":7,"process":0,"rank":0,"ranks":[0,4],"node":"n3","pid":12,` +
		`"cause":"was ended by signal 9","generation":2,"replaced_by":{"process":5,"node":"n6","pid":99},"resume_ms":1.5}` + "\n"
	if err != nil || string(line) != want {
		t.Fatalf("%v\n%s want\n%s", err, line, want)
	}
}

// TestNames checks that the constants, Names and doc.go agree, and that their fields are keys of an
// event.
func TestNames(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Event]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys[key] = true
	}
	for _, n := range Names {
		if want := "//   - " + string(n.Name) + ": " + n.Says + ". " + strings.Join(n.Fields, ", ") +
			".\n"; !strings.Contains(string(doc), want) {
			t.Errorf("doc.go lacks the line\n%s", want)
		}
		for _, f := range n.Fields {
			if !keys[f] {
				t.Errorf("%s has a field %q, which is no key of Event", n.Name, f)
			}
		}
	}
	source, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), " Name = \""); n != len(Names) {
		t.Errorf("there are %d constants, and Names has %d", n, len(Names))
	}
}

func write(t *testing.T, path string, all ...Event) {
	t.Helper()
	w, err := OpenWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, e := range all {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
}

func names(all []Event) (names []Name) {
	for _, e := range all {
		names = append(names, e.Event)
	}
	return names
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	in := []Event{
		{Time: noon, Event: Start, Members: []Process{{Process: 0, Ranks: []int{0}, Node: "n0", PID: 5}}},
		{Time: noon, Event: Eval, Step: 3, LogLoss: Finite(0.5), AUC: Finite(math.NaN())},
	}
	write(t, path, in[0])
	write(t, path, in[1]) // a second writer appends
	out, err := ReadFile(path)
	if err != nil || !reflect.DeepEqual(out, in) {
		t.Fatalf("%v\n%+v\nwant\n%+v", err, out, in)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o644 != 0 {
		t.Errorf("the file's mode: %v, %v", info.Mode(), err)
	}
}

// TestTornLine writes a file as a process does that dies while it writes.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	write(t, path, Event{Event: Start}, Event{Event: Loss, Cause: "torn"})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	if all, err := ReadFile(path); err != nil || !slices.Equal(names(all), []Name{Start}) {
		t.Fatalf("before the next writer: %v, %v", names(all), err)
	}
	write(t, path, Event{Event: Recovered}, Event{Event: End})
	if all, err := ReadFile(path); err != nil || !slices.Equal(names(all), []Name{Start, Recovered, End}) {
		t.Fatalf("after it: %v, %v", names(all), err)
	}
}

func TestReadSkipsWhatIsNoEvent(t *testing.T) {
	text := "\n[]\n{}\nnull\n{\"event\":3}\n" + strings.Repeat("x", 3*maxLineBytes) + "\n" +
		`{"time":"2030-01-01T00:00:00Z","event":"of a later version","key":{"a":1}}` + "\n"
	all, err := Read(strings.NewReader(text))
	if err != nil || !slices.Equal(names(all), []Name{"of a later version"}) {
		t.Fatal(names(all), err)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	line, err := Line(Event{Event: Failed, Error: strings.Repeat("é", 1<<20), Cause: "\x1b[2J\n"})
	if err != nil || len(line) > 2*maxTextBytes || bytes.ContainsAny(line[:len(line)-1], "\x1b\n") {
		t.Fatalf("%v, %d bytes", err, len(line))
	}
	all, err := Read(bytes.NewReader(line))
	if err != nil || len(all) != 1 || !strings.HasSuffix(all[0].Error, "é...") {
		t.Fatal(err, all)
	}
	if _, err := Line(Event{Event: Checkpoint, Path: strings.Repeat("p", maxLineBytes)}); err == nil {
		t.Error("a line over the limit was accepted")
	}
	members := make([]Process, 20000)
	if line, err := Line(Event{Event: Start, Members: members}); err != nil || len(line) > 200 {
		t.Errorf("a start of thousands: %v, %d bytes", err, len(line))
	}
}

func TestOnlyARegularFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	link, fifo, target := filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "target")
	if err := errors.Join(os.Symlink(target, link), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo, dir} {
		if w, err := OpenWriter(path); err == nil {
			w.Close()
			t.Errorf("%s was opened to write", path)
		}
	}
	for _, path := range []string{fifo, dir} {
		if _, err := ReadFile(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target of the link: %v", err)
	}
	if _, err := ReadFile(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestLastRun(t *testing.T) {
	all := []Event{{Event: Start}, {Event: End}, {Event: Resume}, {Event: Loss}}
	if got := names(LastRun(all)); !slices.Equal(got, []Name{Resume, Loss}) {
		t.Error(got)
	}
	if got := names(LastRun(all[3:])); !slices.Equal(got, []Name{Loss}) {
		t.Error(got)
	}
}
