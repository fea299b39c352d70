package cli

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ecrec/ecrec/internal/cuda"
	"github.com/ecrec/ecrec/internal/cuda/standin"
	"github.com/ecrec/ecrec/kernels"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ecrec": func() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the command lines of testdata/script, each in a folder of its
// own. $ADULT holds the example's data, $LISTS files with lists.
func TestScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts send signals")
	}
	if testing.Short() {
		t.Skip("starts many processes")
	}
	adult, err := filepath.Abs("../../../examples/adult")
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Abs("../../../data/testdata")
	if err != nil {
		t.Fatal(err)
	}
	standIn, err := standin.Build(kernels.CUDASource())
	if err != nil && !errors.Is(err, standin.ErrNoCompiler) {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ADULT", adult)
			e.Setenv("LISTS", lists)
			e.Setenv("STANDIN", standIn)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			return nil
		},
		Condition: func(what string) (bool, error) {
			switch what {
			case "gpu":
				_, err := kernels.NewCUDA(kernels.CUDAConfig{})
				return err == nil, nil
			case "standin":
				return standIn != "" && cuda.Built, nil
			}
			return false, fmt.Errorf("unknown condition %q", what)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// exitcode N prog args... runs a program that must end with code N.
			"exitcode": exitCode,
			"flipbit":  flipBit,
		},
	})
}

func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// onStep sends this process a signal at the first line about a step.
type onStep struct {
	bytes.Buffer
	signal syscall.Signal
	sent   bool
}

func (w *onStep) Write(p []byte) (int, error) {
	if !w.sent && bytes.Contains(p, []byte(" step ")) {
		w.sent = true
		if err := syscall.Kill(os.Getpid(), w.signal); err != nil {
			return 0, err
		}
		time.Sleep(100 * time.Millisecond) // this goroutine is rank 0's: the run waits for the signal to arrive
	}
	return w.Buffer.Write(p)
}

func TestSignalFinishesTheStep(t *testing.T) {
	config := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(config, []byte(endless), 0o644); err != nil {
		t.Fatal(err)
	}
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		out, errs := &onStep{signal: signal}, &bytes.Buffer{}
		if got := Main([]string{"train", config, "--overwrite"}, out, errs); got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", signal, got, code, out, errs)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(config), "runs", "run", "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		var sum struct {
			Digest    string
			Steps     int
			Stopped   bool
			TrainLoss []float64 `json:"train_loss"`
		}
		if err := json.Unmarshal(text, &sum); err != nil {
			t.Fatal(err)
		}
		if !sum.Stopped || sum.Steps < 1 || sum.Steps >= 100000000 || len(sum.TrainLoss) != sum.Steps || sum.Digest == "" {
			t.Errorf("%v: summary says stopped %v, %d steps, %d losses, digest %q", signal, sum.Stopped, sum.Steps, len(sum.TrainLoss), sum.Digest)
		}
		if got := errs.String(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, "stopped by a signal; the model is saved; without checkpoint.dir or store.path the run cannot be resumed\n") {
			t.Errorf("%v: stderr %q", signal, got)
		}
	}
}

// endless is a run that only a signal ends.
const endless = `[data]
format = "synthetic"
[model]
embedding_dim = 4
tables = [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]
bottom_mlp = [4]
top_mlp = [1]
[train]
global_batch = 8
iterations = 100000000
log_every = 1
`

// One binary runs on machines with and without GPUs.
func TestNoNVIDIAIsLinked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Skip("skipped: no ELF binary: ", err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(libraries)
	for _, l := range libraries {
		for _, foreign := range []string{"cuda", "nv", "nccl", "cublas", "mpi"} {
			if strings.Contains(l, foreign) {
				t.Errorf("the program needs %s to start", l)
			}
		}
	}
}
