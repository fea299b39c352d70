package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// decode reads a report and refuses fields that Report does not have.
func decode(t *testing.T, text []byte) *Report {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	r := &Report{}
	if err := d.Decode(r); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if d.More() {
		t.Fatalf("more than one object:\n%s", text)
	}
	return r
}

// Every check is in the report, with a value, in text and in JSON.
func TestTextAndJSONAgree(t *testing.T) {
	t.Setenv("SLURMD_NODENAME", "n3")
	r := Examine(Options{Out: t.TempDir(), Expect: Expectations{"cpus": 1e9}})
	var asJSON, asText bytes.Buffer
	if err := r.WriteJSON(&asJSON); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteText(&asText); err != nil {
		t.Fatal(err)
	}
	got := decode(t, asJSON.Bytes())
	if n := bytes.Count(asJSON.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("%d lines of JSON", n)
	}
	if got.Host != "n3" || got.Version == "" || time.Since(got.Time) > time.Hour || got.Healthy {
		t.Errorf("host %q, version %q, time %v, healthy %v", got.Host, got.Version, got.Time, got.Healthy)
	}
	lines := strings.Split(asText.String(), "\n")
	var names []string
	for _, c := range got.Checks {
		if c.Name == "" || c.Value == "" || slices.Contains(names, c.Name) || !slices.Contains([]Status{OK, Warn, Fail, Absent}, c.Status) {
			t.Errorf("bad check %+v", c)
		}
		names = append(names, c.Name)
		i := slices.IndexFunc(lines, func(l string) bool {
			rest, found := strings.CutPrefix(l, "  "+c.Name+" ")
			rest, says := strings.CutPrefix(strings.TrimSpace(rest), string(c.Status)+" ")
			return found && says && strings.TrimSpace(rest) == c.Value
		})
		if i < 0 || c.Detail != "" && strings.TrimSpace(lines[i+1]) != c.Detail {
			t.Errorf("the text lacks %+v:\n%s", c, &asText)
		}
	}
	for _, want := range []string{"ecrec", "cpu", "features", "cpus", "memory", "swap", "shm", "arena", "hugepages",
		"nofile", "memlock", "nproc", "hostname",
		"clock", "disk", "io_uring", "openblas", "gpus", "cuda", "nccl", "mpi", "slurm", "kafka", "job.device", "kernels", "job.threads",
		"collectives.transport"} {
		if !slices.Contains(names, want) {
			t.Errorf("nothing about %s", want)
		}
	}
	if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), "not healthy: cpus: ") ||
		!strings.Contains(err.Error(), "expected at least 1000000000") {
		t.Errorf("the report's error is %v", err)
	}
}

func TestAQuestionThatHangsIsCutOff(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	start := time.Now()
	checks := runAll([]question{
		{"a", "quick", "", one(func() Check { return Check{Status: OK, Value: "here"} })},
		{"a", "stuck", "the file system of /scratch", one(func() Check { <-hang; return Check{Status: OK} })},
		{"b", "cancelled", "the name service", func(ctx context.Context) []Check { <-ctx.Done(); return []Check{{Status: OK}} }},
		{"b", "several", "", func(context.Context) []Check { return []Check{{Status: OK}, {Name: "second", Status: Absent}} }},
		{"c", deviceQuestion, "", func(ctx context.Context) []Check {
			time.Sleep(100 * time.Millisecond) // longer than the limit of the others, as a compiler
			return []Check{{Status: OK, Value: "compiled"}}
		}},
	}, 50*time.Millisecond)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	want := []Check{
		{Name: "quick", Status: OK, Value: "here", Part: "a"},
		{Name: "stuck", Status: Fail, Value: "no answer", Detail: "the file system of /scratch did not answer within 50ms", Part: "a"},
		{Name: "cancelled", Status: Fail, Value: "no answer", Detail: "the name service did not answer within 50ms", Part: "b"},
		{Name: "several", Status: OK, Part: "b"},
		{Name: "second", Status: Absent, Part: "b"},
		{Name: deviceQuestion, Status: OK, Value: "compiled", Part: "c"},
	}
	if !reflect.DeepEqual(checks, want) {
		t.Errorf("got %+v\nwant %+v", checks, want)
	}
	if r := newReport(checks, nil); r.Healthy || r.Err() == nil {
		t.Errorf("healthy %v, %v", r.Healthy, r.Err())
	}
}

// A program that hangs is killed, with the processes that it started.
func TestAProgramThatHangsIsKilled(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	script := "#!/bin/sh\nsleep 1000 &\necho $! > " + filepath.Join(dir, "pid") + "\nwait\n"
	if err := os.WriteFile(filepath.Join(dir, "mpirun"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for readWord(filepath.Join(dir, "pid")) == "" && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if p, found := find(ctx, "mpirun", mpiVersion); !found || p.err == nil {
		t.Errorf("%+v", p)
	}
	stat := "/proc/" + readWord(filepath.Join(dir, "pid")) + "/stat"
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		state := strings.Fields(readWord(stat))
		if len(state) < 3 || state[2] == "Z" { // gone, or nobody reaps it here
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s still runs", stat)
		}
	}
}

func TestExpectations(t *testing.T) {
	for text, want := range map[string]Expectations{
		"cpus=8,memory=64GiB,gpus=4,shm=8GiB": {"cpus": 8, "memory": 64 << 30, "gpus": 4, "shm": 8 << 30},
		"disk=1.5MiB, gpus=0":                 {"disk": 3 << 19, "gpus": 0},
		"":                                    nil,
		"cpu=8":                               nil,
		"cpus":                                nil,
		"cpus=-1":                             nil,
		"cpus=8GiB":                           nil,
		"memory=much":                         nil,
		"cpus=8,,gpus=1":                      nil,
		"cpus=8,cpus=9":                       nil,
	} {
		var got Expectations
		if err := got.UnmarshalText([]byte(text)); (err == nil) != (want != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	checks := []Check{
		{Name: "cpus", Status: OK, amount: 8},
		{Name: "memory", Status: OK, amount: 62 << 30},
		{Name: "shm", Status: Warn, Detail: "small", amount: 64 << 20},
		{Name: "gpus", Status: Absent, Detail: "no driver"},
		{Name: "disk", Status: Fail, Detail: "no answer"},
		{Name: "clock", Status: OK},
	}
	Expectations{"cpus": 8, "memory": 64 << 30, "shm": 8 << 30, "gpus": 4, "disk": 1}.failBelow(checks)
	want := []Check{
		{Name: "cpus", Status: OK, amount: 8},
		{Name: "memory", Status: Fail, Detail: "expected at least 64 GiB", amount: 62 << 30},
		{Name: "shm", Status: Fail, Detail: "expected at least 8 GiB; small", amount: 64 << 20},
		{Name: "gpus", Status: Fail, Detail: "expected at least 4; no driver"},
		{Name: "disk", Status: Fail, Detail: "no answer"},
		{Name: "clock", Status: OK},
	}
	if !reflect.DeepEqual(checks, want) {
		t.Errorf("got %+v\nwant %+v", checks, want)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if c := inspectFolder(filepath.Join(dir, "new", "out"), true).toCheck(); c.Status == Fail || c.amount <= 0 ||
		!strings.Contains(c.Value, "free in "+dir) {
		t.Errorf("a folder that can be made: %+v", c)
	}
	if c := inspectFolder(filepath.Join(file, "out"), true).toCheck(); c.Status != Fail || c.Detail == "" {
		t.Errorf("a folder in a file: %+v", c)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder holds %v", entries)
	}
}

func TestProgramsAndLibraries(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("LD_LIBRARY_PATH", dir)
	t.Setenv("SLURM_JOB_ID", "12")
	t.Setenv("SLURMD_NODENAME", "n3")
	if c := mpi(t.Context()); c.Status != Absent || c.Detail == "" {
		t.Errorf("no MPI: %+v", c)
	}
	path := func(name, script string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	openmpi := path("mpirun.openmpi", "echo 'mpirun (Open MPI) 4.1.4'\necho\n")
	if err := os.Symlink(openmpi, filepath.Join(dir, "mpirun")); err != nil {
		t.Fatal(err)
	}
	mpich := path("mpirun.mpich", "echo 'HYDRA build details:'\necho '    Version:    4.0.2'\n")
	want := Check{Status: OK, Value: "Open MPI 4.1.4 (" + filepath.Join(dir, "mpirun") + "), MPICH 4.0.2 (" + mpich + ")"}
	if c := mpi(t.Context()); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	srun := path("srun", "echo 'slurm-wlm 22.05.8'\n")
	if c, want := slurm(t.Context()), (Check{Status: OK, Value: "slurm-wlm 22.05.8 (" + srun + "), in job 12 on node n3"}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	path("srun", "echo 'srun: fatal: no configuration' >&2\nexit 1\n")
	if c := slurm(t.Context()); c.Status != Warn || c.Detail != srun+" --version: srun: fatal: no configuration" {
		t.Errorf("%+v", c)
	}
	if c := library("libecrec.so", "nobody"); c.Status != Absent {
		t.Errorf("%+v", c)
	}
	if c, want := library(filepath.Base(path("libecrec.so", "")), "nobody"),
		(Check{Status: OK, Value: filepath.Join(dir, "libecrec.so")}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}
