package checkpoint

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

var crashes = flag.Int("crashes", 10, "how often TestCrashWhileSaving kills a process")

// crashEnv names the folder to save to, when the test binary is the process that is killed.
const crashEnv = "ECREC_TEST_CHECKPOINT_DIR"

// crashWorld is the model at a step, a function of the step.
func crashWorld(w *world, step int64) {
	w.fill(rand.New(rand.NewPCG(uint64(step), 5)), 1)
}

func crashModel() Model {
	return Model{Kind: "dlrm", Seed: 3, Tables: []Table{{"a", 30000}}, Width: 8, RowState: 1, DenseState: 1,
		Tensors: []Tensor{{"b", []int64{900}}}}
}

// saveUntilKilled continues from the newest checkpoint and saves step after step.
func saveUntilKilled() {
	dir := os.Getenv(crashEnv)
	c, _, err := Find(env.Real(), dir, 0)
	if err != nil {
		panic(err)
	}
	step := int64(1)
	if c != nil {
		step = c.Step + 1
	}
	w := newWorld(crashModel(), 3)
	for ; ; step++ {
		crashWorld(w, step)
		fmt.Println(step)
		if err := w.save(Save{Dir: dir, Step: step, Keep: 2}); err != nil {
			panic(err)
		}
	}
}

// A process is killed at random moments of saving, many times. Each time the newest
// checkpoint is complete, and holds the model of its step.
func TestCrashWhileSaving(t *testing.T) {
	rnd := random(t)
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	w := newWorld(crashModel(), 2)
	defer w.close()
	for n := range *crashes {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), crashEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The process prints a line when it begins to save. The kill follows after a random time.
		for range 1 + rnd.IntN(3) {
			_, _ = fmt.Fscanln(out, new(int64))
		}
		time.Sleep(time.Duration(rnd.IntN(120)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c, problems, err := Find(env.Real(), dir, 0)
		if err != nil || len(problems) > 0 {
			t.Fatalf("crash %d: %v, %v", n, problems, err)
		}
		if c == nil {
			if last > 0 {
				t.Fatalf("crash %d: step %d is gone", n, last)
			}
			continue
		}
		if c.Step < last {
			t.Fatalf("crash %d: newest is step %d, was %d", n, c.Step, last)
		}
		last = c.Step
		for _, h := range w.shards {
			h.Reset()
		}
		if err := w.load(c); err != nil {
			t.Fatalf("crash %d: %v", n, err)
		}
		if w.digest().String() != c.Digest {
			t.Fatalf("crash %d: step %d has digest %v, the trainer's was %s", n, c.Step, w.digest(), c.Digest)
		}
	}
	t.Logf("%d crashes, step %d reached", *crashes, last)
	if *crashes >= 10 && last == 0 {
		t.Error("nothing was ever saved")
	}
}
