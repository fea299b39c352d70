package train

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
)

func init() { smallSave = 0 } // the models of these tests are small

// disk is an Env with a disk that do stands before.
type disk struct {
	env.Env
	do func(what string, f func() error) error
}

func (d disk) Do(what string, f func() error) error { return d.do(what, f) }

// slowly makes each step of a rank take some time, and more until there is a checkpoint in a folder.
func slowly(dir string, inject func(int, int64, probe.Point) error) func(int, int64, probe.Point) error {
	return func(rank int, step int64, at probe.Point) error {
		if at == probe.Step {
			time.Sleep(2 * time.Millisecond)
			if checkpoint.Newest(dir) == "" {
				time.Sleep(10 * time.Millisecond)
			}
		}
		if inject == nil {
			return nil
		}
		return inject(rank, step, at)
	}
}

// runOn is run on a disk.
func runOn(t *testing.T, do func(what string, f func() error) error, o Options, path string, sets ...string) (result *Result) {
	t.Helper()
	cfg, err := config.Load(path, append([]string{"job.out=" + t.TempDir()}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	if o.Stop == nil {
		o.Stop = func() bool { return false }
	}
	within(t, 30*time.Second, func() { result, err = Run(disk{env.Real(), do}, cfg, o) })
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// memory returns a folder in memory, if there is one: a save there waits for no disk.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "saving-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// checkpointsIn returns the files of all checkpoints of a folder, by the names of both. It fails the test if
// anything else is there.
func checkpointsIn(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	folders, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		switch {
		case strings.Contains(folder.Name(), ".tmp-"):
			t.Errorf("%s is left behind", folder.Name())
		case folder.IsDir():
			files, err := os.ReadDir(filepath.Join(dir, folder.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[folder.Name()] = map[string]string{}
			for _, file := range files {
				text, err := os.ReadFile(filepath.Join(dir, folder.Name(), file.Name()))
				if err != nil {
					t.Fatal(err)
				}
				all[folder.Name()][file.Name()] = string(text)
			}
		}
	}
	return all
}

// checkSaved checks that each checkpoint of a folder equals that of a run that saved each step and waited for
// it, except the files named but. It returns how many there are.
func checkSaved(t *testing.T, got, want string, but ...string) int {
	t.Helper()
	all, paused := checkpointsIn(t, consolidated(t, got)), checkpointsIn(t, want)
	for name, files := range all {
		if paused[name] == nil {
			t.Fatalf("%s is there, of %v", name, slices.Sorted(maps.Keys(paused)))
		}
		for file, text := range paused[name] {
			if !slices.Contains(but, file) && files[file] != text {
				t.Errorf("%s/%s is not the file of a save that training waited for", name, file)
			}
		}
		if len(files) != len(paused[name]) {
			t.Errorf("%s has %d files, want %d", name, len(files), len(paused[name]))
		}
	}
	return len(all)
}

// savedSets draws settings under which saves are tested.
func savedSets(r *rand.Rand, ranks int) []string {
	sets := append(anySets(r), fmt.Sprint("job.ranks=", ranks), "train.iterations=30", "train.eval_every=9",
		fmt.Sprint("job.digests=", r.IntN(2) == 0), "checkpoint.kind="+anyKind(r))
	if ranks > 1 && r.IntN(2) == 0 {
		sets = append(sets, "ec.code=xor", fmt.Sprint("ec.k=", ranks-1), fmt.Sprint("ec.commit_every=", 1+r.IntN(5)))
	}
	return sets
}

// TestSavesBesideTraining: the checkpoints that are written beside training are those for which training waits,
// byte for byte, with every optimizer, any number of ranks, rows that are copied after each step, and slow
// ranks. Training is the same.
func TestSavesBesideTraining(t *testing.T) {
	r := seeded(t)
	for _, path := range someCases(t, r) {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			ranks := []int{1, 2, 4}[r.IntN(3)]
			sets := savedSets(r, ranks)
			t.Log(sets)
			paused, beside := memory(t), t.TempDir()
			all := append(slices.Clone(sets), "checkpoint.keep=0", "checkpoint.every=1", "checkpoint.kind=full", "checkpoint.dir="+paused)
			want := run(t, Options{PauseSaves: true}, path, all...)
			slow := fmt.Sprintf("rows-%05d", r.IntN(ranks))
			do := func(what string, f func() error) error {
				if strings.Contains(what, slow) && r.IntN(2) == 0 { // one goroutine at a time does
					time.Sleep(10 * time.Millisecond)
				}
				return f()
			}
			some := append(slices.Clone(sets), "checkpoint.keep=0", fmt.Sprint("checkpoint.every=", 1+r.IntN(6)), "checkpoint.dir="+beside)
			o := Options{Observer: &quiet{}, Inject: slowly(beside, nil), SaveRows: []int{0, 200 + r.IntN(2000)}[r.IntN(2)]}
			got := runOn(t, do, o, path, some...)
			if got.Digest != want.Digest {
				t.Errorf("digest %s, want %s", got.Digest, want.Digest)
			}
			if n := checkSaved(t, beside, paused); n < 2 {
				t.Errorf("%d checkpoints: none was written beside training", n)
			}
		})
	}
}

// TestDeathsWhileSaving: ranks die while a save is under way. The save is of one step or it is not there, it is
// taken again, and training is the same.
func TestDeathsWhileSaving(t *testing.T) {
	r := seeded(t)
	base := []string{"job.ranks=5", "ec.code=xor", "ec.k=4", "train.iterations=40", "train.eval_every=9", "job.digests=true",
		"checkpoint.keep=0"}
	paused := memory(t)
	want := run(t, Options{PauseSaves: true}, adagrad, append(slices.Clone(base), "checkpoint.every=1", "checkpoint.dir="+paused)...)
	for range 6 {
		beside := t.TempDir()
		sets := append(append(slices.Clone(base), anySets(r)...), fmt.Sprint("ec.commit_every=", 1+r.IntN(5)), "checkpoint.every=15",
			"checkpoint.dir="+beside, "checkpoint.kind="+anyKind(r))
		k := &killer{spare: 1, dead: map[int]uint64{}}
		points := []probe.Point{probe.Checkpoint, probe.Written, probe.Saved, probe.Step, probe.Status, probe.Done, probe.Rebuild,
			probe.Ready}
		for range 1 + r.IntN(3) {
			k.kills = append(k.kills, kill{r.IntN(5), 15 + int64(r.IntN(20)), points[r.IntN(len(points))]})
		}
		name := fmt.Sprint(sets, k.kills)
		w := &savingKiller{killer: k}
		o := Options{World: lasting(5, k), Observer: w, Inject: slowly(beside, k.inject), SaveRows: 200 + r.IntN(2000)}
		got := run(t, o, adagrad, sets...)
		if got.Digest != want.Digest || !slices.Equal(got.Eval, want.Eval) {
			t.Errorf("%s (%d died): digest %s, want %s", name, len(k.hit), got.Digest, want.Digest)
		}
		if n := checkSaved(t, beside, paused, "history.bin", "manifest.json"); n < 2 {
			t.Errorf("%s: %d checkpoints; %v; hit %v", name, n, w.steps, k.hit)
		}
		for _, step := range w.steps {
			if step < 15 {
				t.Errorf("%s: saves after %v", name, w.steps)
			}
		}
	}
}

// savingKiller is a killer that records saves.
type savingKiller struct {
	*killer
	steps []int64
}

func (o *savingKiller) Checkpointed(step int64, _ string, err error) {
	if err != nil {
		step = -step
	}
	o.steps = append(o.steps, step)
}

// stepper watches a run.
type stepper struct {
	watcher
	warnings []string
	reasons  []error
	step     func(int64)
	failed   atomic.Bool // a save has failed
}

func (s *stepper) Step(i StepInfo) { s.step(i.Step) }
func (s *stepper) Warned(what string) {
	if strings.Contains(what, "checkpoint") {
		s.warnings = append(s.warnings, what)
	}
}
func (s *stepper) Checkpointed(step int64, path string, err error) {
	s.watcher.Checkpointed(step, path, err)
	if err != nil {
		s.reasons = append(s.reasons, err)
		s.failed.Store(true)
	}
}

// TestSlowDisk: while the disk does nothing, no step waits for it. Saves that become due meanwhile are taken later,
// and the run says so once.
func TestSlowDisk(t *testing.T) {
	stages := []string{"write ", "commit checkpoint", "begin checkpoint", "create ", "close "}
	for _, blocked := range stages[:fewerInRaces(len(stages))] {
		t.Run(strings.TrimSpace(blocked), func(t *testing.T) {
			free := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
			var mu sync.Mutex
			saves := 0
			do := func(what string, f func() error) error {
				mu.Lock()
				if what == "begin checkpoint" {
					saves++
				}
				now := saves
				mu.Unlock()
				if strings.HasPrefix(what, blocked) && now >= 1 && now <= 2 {
					<-free[now-1]
				}
				return f()
			}
			w := &stepper{step: func(step int64) { // if a step waited for the disk, this would not be reached
				if step == 65 || step == 95 {
					close(free[step/95])
				}
			}}
			dir := t.TempDir()
			runOn(t, do, Options{Observer: w, Inject: slowly("", nil)}, adagrad, "job.ranks=2", "train.iterations=240",
				"checkpoint.every=30", "checkpoint.keep=0", "checkpoint.dir="+dir)
			s := w.steps
			if n := len(s); n < 4 || s[0] != 30 || s[1] <= 65 || s[1] >= 90 || s[2] <= 95 || s[n-1] != 240 {
				t.Errorf("saves after %v, want 30, 240, and in between one soon after step 65 and others after step 95", w.steps)
			}
			if len(w.warnings) != 1 || !strings.Contains(w.warnings[0], "a checkpoint was due after step ") {
				t.Errorf("warned %q, want one line", w.warnings)
			}
			checkpointsIn(t, dir)
		})
	}
}

// TestFullDisk: a save that fails on any rank and at any point is reported once with its reason, leaves nothing
// behind, and costs no step. The next one succeeds.
func TestFullDisk(t *testing.T) {
	base := []string{"job.ranks=3", "train.iterations=60", "checkpoint.keep=0"}
	paused := memory(t)
	want := run(t, Options{PauseSaves: true}, adagrad, append(slices.Clone(base), "checkpoint.every=1", "checkpoint.dir="+paused)...)
	for _, at := range []string{"begin checkpoint", "create rows-00001", "write rows-00002", "close rows-00000", "close rows-00002",
		"create dense", "commit checkpoint"} {
		t.Run(at, func(t *testing.T) {
			what, file, _ := strings.Cut(at, " ")
			var once sync.Once
			do := func(now string, f func() error) (err error) {
				if strings.HasPrefix(now, what) && strings.Contains(now, file) {
					once.Do(func() { err = unix.ENOSPC })
				}
				if err != nil {
					return err
				}
				return f()
			}
			dir := t.TempDir()
			w := &stepper{step: func(int64) {}}
			// However slow the disk is, the save of step 20 fails before the next one is due.
			wait := func(_ int, step int64, at probe.Point) error {
				if at == probe.Step && step >= 30 && step < 39 && !w.failed.Load() {
					time.Sleep(300 * time.Millisecond)
				}
				return nil
			}
			got := runOn(t, do, Options{Observer: w, Inject: slowly(dir, wait)}, adagrad,
				append(slices.Clone(base), "checkpoint.every=20", "checkpoint.dir="+dir)...)
			if got.Digest != want.Digest || !slices.Equal(w.steps, []int64{-20, 40, 60}) {
				t.Errorf("digest %s, want %s; saves after %v", got.Digest, want.Digest, w.steps)
			}
			if len(w.reasons) != 1 || !strings.Contains(w.reasons[0].Error(), "no space left on device") {
				t.Errorf("reported %v", w.reasons)
			}
			checkSaved(t, dir, paused)
		})
	}
}

// TestStopWhileSaving: a job that is stopped gives the save under way up, also while it waits for the disk, and saves
// its last step.
func TestStopWhileSaving(t *testing.T) {
	dir := t.TempDir()
	free := make(chan struct{})
	do := func(what string, f func() error) error {
		if strings.HasPrefix(what, "close ") && strings.Contains(what, "step-000000000005.tmp") {
			<-free
		}
		return f()
	}
	var step atomic.Int64
	w := &stepper{step: func(n int64) { step.Store(n) }}
	stop := func() bool {
		if step.Load() < 30 {
			return false
		}
		if step.Load() == 30 {
			time.AfterFunc(20*time.Millisecond, sync.OnceFunc(func() { close(free) }))
			step.Store(31)
		}
		return true
	}
	got := runOn(t, do, Options{Observer: w, Inject: slowly("", nil), Stop: stop}, adagrad, "job.ranks=1", "train.iterations=80",
		"checkpoint.every=5", "checkpoint.keep=0", "checkpoint.dir="+dir)
	if all := checkpointsIn(t, dir); !got.Stopped || len(all) != 1 || all[fmt.Sprintf("step-%012d", got.Steps)] == nil {
		t.Errorf("stopped %v after %d steps with %v", got.Stopped, got.Steps, slices.Sorted(maps.Keys(all)))
	}
}

// TestBestModelOfASave: a better model of a later step does not remove that of a checkpoint that is being written.
func TestBestModelOfASave(t *testing.T) {
	want := run(t, Options{}, adagrad, judged...)
	var steps []int64 // of evaluations that were the best so far
	for i := range want.Eval {
		if best := bestOf(want.Eval[:i+1], "auc"); best.Step == want.Eval[i].Step {
			steps = append(steps, best.Step)
		}
	}
	if len(steps) < 2 {
		t.Fatalf("no better one follows in %+v: the test needs another", want.Eval)
	}
	dir := t.TempDir()
	free := make(chan struct{})
	do := func(what string, f func() error) error {
		if what == "commit checkpoint" {
			<-free
		}
		return f()
	}
	begun := false
	w := &stepper{step: func(step int64) {
		if step == steps[1]+1 && !begun {
			begun = true
			close(free)
		}
	}}
	kept := func(step int64) bool {
		all, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("model-best-%012d-*", step)))
		return len(all) > 0
	}
	lost := false
	o := Options{Observer: w, SaveTo: filepath.Join(t.TempDir(), "m"), Inject: func(rank int, step int64, at probe.Point) error {
		if rank == 0 && at == probe.Saved && step == steps[0] {
			lost = !kept(steps[0])
		}
		return slowly("", nil)(rank, step, at)
	}}
	runOn(t, do, o, adagrad, append(slices.Clone(judged), "checkpoint.keep=1", fmt.Sprint("checkpoint.every=", steps[0]),
		"checkpoint.dir="+dir)...)
	if len(w.steps) == 0 || w.steps[0] != steps[0] || lost {
		t.Errorf("saves after %v; the best model of the first is lost: %v", w.steps, lost)
	}
}
