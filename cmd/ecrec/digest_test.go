package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/ecrec/ecrec/train/traintest"
)

// variant is a build of the program. Builds must not change a bit.
type variant struct {
	name  string
	pkg   string
	vars  []string
	flags []string
	ways  scope
	lacks string // why it cannot be built or run here; "" if it can
}

// scope selects ways of running a program: a build runs those of its scope and of the scopes above.
type scope int

const (
	everyBuild     scope = iota // its own kernels
	otherCompilers              // the compiler's arithmetic, for builds where the compiler makes other instructions
	defaultBuild
)

func variants() []variant {
	v3, race := "", ""
	if x := cpu.X86; !x.HasAVX2 || !x.HasBMI1 || !x.HasBMI2 || !x.HasFMA {
		v3 = "this CPU is below GOAMD64=v3"
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		race = "the race detector needs cgo, and there is no gcc"
	}
	v1 := ""
	if level, err := exec.Command("go", "env", "GOAMD64").Output(); err == nil && strings.TrimSpace(string(level)) == "v1" {
		v1 = "the default build is for GOAMD64=v1"
	}
	// Only the program is built for v3: building everything for it takes long.
	return []variant{
		{name: "v1", pkg: ".", vars: []string{"GOAMD64=v1"}, ways: otherCompilers, lacks: v1},
		{name: "v3", pkg: "./testdata/trainer", vars: []string{"GOAMD64=v3"}, ways: otherCompilers, lacks: v3}, // its compiler fuses a*b+c where it may
		{name: "nocgo", pkg: ".", vars: []string{"CGO_ENABLED=0"}},
		{name: "race", pkg: ".", vars: []string{"CGO_ENABLED=1"}, flags: []string{"-race"}, lacks: race},
	}
}

// ways lists the ways of running a program. They must not change a bit.
var ways = []struct {
	name   string
	builds scope
	vars   []string
	sets   []string
}{
	{name: "as it is", builds: everyBuild},
	{name: "again", builds: defaultBuild},
	{name: "one thread", builds: defaultBuild, sets: []string{"job.threads=1"}},
	{name: "two threads", builds: defaultBuild, sets: []string{"job.threads=2"}},
	{name: "plain Go", builds: otherCompilers, vars: []string{"ECREC_CPU=plain"}},
	{name: "AVX2", builds: defaultBuild, vars: []string{"ECREC_CPU=avx2"}},
	{name: "AVX-512", builds: defaultBuild, vars: []string{"ECREC_CPU=avx512"}},
	{name: "no FMA in Go's library", builds: defaultBuild, vars: []string{"GODEBUG=cpu.fma=off"}},
	{name: "plain Go, no FMA in Go's library", builds: otherCompilers, vars: []string{"GODEBUG=cpu.fma=off", "ECREC_CPU=plain"}},
}

// TestOneDigest trains the same jobs with every build in every way. Digest, losses, evaluation and
// saved model must be the same, bit for bit.
func TestOneDigest(t *testing.T) {
	t.Parallel()
	few := "train.iterations=5"
	type job struct {
		name, config string
		sets         []string
	}
	jobs := []job{
		{"binary", golden("dlrm-adam"), []string{few, "job.ranks=2"}},
		{"binary shuffled", golden("dlrm-rowwise-adagrad"), []string{few, "job.ranks=2", "data.shuffle=block"}},
		{"csv", filepath.Join("..", "..", "examples", "quickstart.toml"), []string{few, "train.epochs=0", "data.eval=[]"}},
	}
	forms := traintest.WriteJob(t)
	for _, f := range traintest.Forms {
		jobs = append(jobs, job{f.Name, forms, append([]string{few, "job.ranks=2"}, f.Sets...)})
	}
	type one struct {
		summary
		model []byte
	}
	want := map[string]one{}
	compare := func(t *testing.T, program string, build scope) {
		for _, job := range jobs {
			for _, way := range ways {
				if way.builds > build {
					continue
				}
				out := filepath.Join(t.TempDir(), "out")
				what := fmt.Sprintf("%s, %s", job.name, way.name)
				got := run(t, program, append(way.vars, "GORACE=atexit_sleep_ms=0"), train(job.config, out, slices.Concat(job.sets, way.sets)...)...)
				if got.code != 0 {
					t.Fatalf("%s: exit code %d\n%s", what, got.code, got.stderr)
				}
				model, err := os.ReadFile(filepath.Join(out, "model.safetensors"))
				if err != nil {
					t.Fatal(err)
				}
				s := readSummary(t, out)
				w, ok := want[job.name]
				if !ok {
					want[job.name] = one{s, model}
					continue
				}
				equal(t, what, s, w.summary)
				if !bytes.Equal(model, w.model) {
					t.Errorf("%s: the saved model differs", what)
				}
			}
		}
	}
	t.Run("default", func(t *testing.T) { compare(t, ecrec(t), defaultBuild) })
	if want["binary"].Digest == want["binary shuffled"].Digest {
		t.Error("two jobs have one digest")
	}
	if t.Failed() {
		return // the other builds have nothing to compare with
	}
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("building the program in four more ways takes long")
			}
			if v.lacks != "" {
				t.Skip(v.lacks)
			}
			t.Parallel()
			compare(t, build(t, v.name, v.pkg, v.vars, v.flags...), v.ways)
		})
	}
}
