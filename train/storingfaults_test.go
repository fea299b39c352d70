package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/store"
)

// rises counts how often the step that is durable on all ranks has risen.
type rises struct {
	quiet
	step, times atomic.Int64
}

func (r *rises) Step(i StepInfo) {
	time.Sleep(time.Millisecond)
	if i.Durable > r.step.Load() {
		r.step.Store(i.Durable)
		r.times.Add(1)
	}
}

// TestStaleLogIsRefused: the log of a rank as it was some time before, of a machine that is back or a copy, is no log to continue from, though all
// logs hold its last step.
func TestStaleLogIsRefused(t *testing.T) {
	sets := []string{"job.ranks=2", "train.iterations=600", "ec.commit_every=2"}
	want := run(t, Options{}, adagrad, sets...)
	home := t.TempDir()
	log, early, newest := filepath.Join(home, "store", "rank-00001"), filepath.Join(home, "early"), filepath.Join(home, "newest")
	sets = append(sets, "store.path="+filepath.Join(home, "store"))
	train := func(times int64) {
		t.Helper()
		r := &rises{}
		if got := run(t, Options{Resume: "auto", Observer: r, Stop: func() bool { return r.times.Load() >= times }}, adagrad, sets...); !got.Stopped {
			t.Fatalf("the durable step rose %d times in %d steps", r.times.Load(), got.Steps)
		}
	}
	train(2)
	if err := os.CopyFS(early, os.DirFS(log)); err != nil {
		t.Fatal(err)
	}
	train(7)
	if err := errors.Join(os.Rename(log, newest), os.Rename(early, log)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := runAnyway(t, Options{Resume: "auto", Observer: &quiet{}}, adagrad, sets...)
		if err == nil || !strings.Contains(err.Error(), "the log of rank 1 ends at step ") || !strings.Contains(err.Error(), "put its newest log there") {
			t.Fatalf("an old log: resumed at step %d, %v", got.Began, err)
		}
	}
	if err := errors.Join(os.RemoveAll(log), os.Rename(newest, log)); err != nil {
		t.Fatal(err)
	}
	if got := run(t, Options{Resume: "auto"}, adagrad, sets...); got.Began == 0 || got.Digest != want.Digest {
		t.Errorf("the newest log again: resumed at step %d, digest %s, want %s", got.Began, got.Digest, want.Digest)
	}
}

// filling is the folder of a log on a disk that takes nothing once it is full, and that counts syncs of files until another is full.
type filling struct {
	store.Dir
	full  *atomic.Bool
	syncs *atomic.Int64
}

type fillingFile struct {
	rowlog.File
	dir filling
}

func (d filling) Create(number uint64) (rowlog.File, error) {
	if d.full.Load() {
		return nil, rowlog.ErrDisk
	}
	f, err := d.Dir.Create(number)
	return fillingFile{f, d}, err
}

func (d filling) Open(number uint64) (rowlog.File, error) {
	f, err := d.Dir.Open(number)
	return fillingFile{f, d}, err
}

func (f fillingFile) WriteAt(p []byte, at int64) error {
	if f.dir.full.Load() {
		return rowlog.ErrDisk
	}
	return f.File.WriteAt(p, at)
}

func (f fillingFile) Sync() error {
	f.dir.syncs.Add(1)
	return f.File.Sync()
}

// TestLogsOnAFullDisk: a disk is full when the logs are to be continued. The error does not advise to remove them, and once there is room
// the job continues.
func TestLogsOnAFullDisk(t *testing.T) {
	sets := []string{"job.ranks=2", "train.iterations=600", "ec.commit_every=2"}
	want := run(t, Options{}, adagrad, sets...)
	sets = append(sets, "store.path="+filepath.Join(t.TempDir(), "store"))
	var full [2]atomic.Bool
	var syncs [2]atomic.Int64
	o := Options{Resume: "auto", StoreDir: func(rank int, path string) (store.Dir, error) {
		d, err := rowlog.OpenDir(env.Real(), path, rowlog.Access{})
		return filling{d, &full[rank], &syncs[rank]}, err
	}}
	r, before := &rises{}, int64(0)
	o.Observer, o.Inject = r, func(rank int, _ int64, at probe.Point) error {
		switch {
		case rank != 0 || at != probe.Step || r.times.Load() < 2:
		case !full[1].Load(): // the log of rank 0 becomes longer than that of rank 1
			before = syncs[0].Load()
			full[1].Store(true)
		case syncs[0].Load() > before+1:
			return errDevice
		}
		return nil
	}
	if _, err := runAnyway(t, o, adagrad, sets...); !errors.Is(err, errDevice) {
		t.Fatal(err)
	}
	full[0].Store(true)
	full[1].Store(false)
	o.Observer, o.Inject = &quiet{}, nil
	_, err := runAnyway(t, o, adagrad, sets...)
	if err == nil || !strings.Contains(err.Error(), "rank 0 cannot continue its log") || !strings.Contains(err.Error(), "free or repair") ||
		strings.Contains(err.Error(), "remove the logs") {
		t.Fatalf("a full disk: %v", err)
	}
	full[0].Store(false)
	if got := run(t, o, adagrad, sets...); got.Began == 0 || got.Digest != want.Digest {
		t.Errorf("resumed at step %d, digest %s, want %s", got.Began, got.Digest, want.Digest)
	}
}

// TestLogOfALongerRun: the log of a run that was longer is not damaged.
func TestLogOfALongerRun(t *testing.T) {
	sets := []string{"job.ranks=2", "store.path=" + filepath.Join(t.TempDir(), "store")}
	run(t, Options{}, adagrad, append(sets, "train.iterations=500")...)
	_, err := runAnyway(t, Options{Resume: "auto", Observer: &quiet{}}, adagrad, append(sets, "train.iterations=200")...)
	if err == nil || !strings.Contains(err.Error(), "up to step 500, and it ends at step 200") {
		t.Error(err)
	}
}

// TestStoredSteps: the result of a job that was stopped has the step up to which its logs have it.
func TestStoredSteps(t *testing.T) {
	for _, full := range []bool{false, true} {
		o := Options{Observer: &quiet{}, StoreDir: func(rank int, path string) (store.Dir, error) {
			d, err := rowlog.OpenDir(env.Real(), path, rowlog.Access{})
			if full && rank == 1 {
				return noFiles{d}, err
			}
			return d, err
		}}
		asked := atomic.Int64{}
		o.Stop = func() bool { return asked.Add(1) > 7 }
		got := run(t, o, adagrad, "job.ranks=2", "model.init_from=", "ec.commit_every=3", fmt.Sprint("store.path=", t.TempDir()))
		durable, rest := got.Steps, int64(0)
		if full {
			durable, rest = 0, got.Steps
		}
		if !got.Stopped || got.Durable != durable || got.NotDurable != rest {
			t.Errorf("full disk %v: stopped %v after step %d, durable up to step %d, and %d more", full, got.Stopped, got.Steps, got.Durable, got.NotDurable)
		}
	}
}
