package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// left holds the files of a run on a full disk.
type left struct {
	code           int
	stdout, stderr string
	metrics        int // lines
	summary        struct {
		Digest, Model, Error string
		Steps                int
		TrainLoss            []float64 `json:"train_loss"`
		MetricsLost          int       `json:"metrics_lost"`
		LossesLeftOut        int       `json:"losses_left_out"`
	}
}

// trainUnder trains in a process that a shell starts after other commands.
func trainUnder(t *testing.T, before, out string, rows int, sets ...string) (l left) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "run.toml")
	text := strings.Replace(endless, "tables = [9,", fmt.Sprintf("tables = [%d,", rows), 1)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-c", before + `; exec ecrec "$@"`, "sh", "train", config, "--set", "job.out=" + out}
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("sh", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	l.code, l.stdout, l.stderr = cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
	lines, err := os.ReadFile(filepath.Join(out, "metrics.jsonl"))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, l.stdout, l.stderr)
	}
	l.metrics = bytes.Count(lines, []byte(`"loss":`))
	if text, err = readText(filepath.Join(out, "summary.json")); err == nil {
		err = json.Unmarshal([]byte(text), &l.summary)
	}
	if err != nil {
		t.Fatalf("%v\n%s%s", err, l.stdout, l.stderr)
	}
	return l
}

func readText(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// limited is a file system on which files have at most 128 KiB, for any user.
const limited = "ulimit -f 256"

// checkMetricsLeftOut checks a run whose disk had no room for metrics, and room for all else.
func checkMetricsLeftOut(t *testing.T, l left, steps int) {
	t.Helper()
	if l.code != 0 || l.stderr != "" || strings.Count(l.stdout, "warning: ") != 1 ||
		!strings.Contains(l.stdout, "cannot write metrics.jsonl (") {
		t.Errorf("exit code %d, stderr %q, stdout %.600s", l.code, l.stderr, l.stdout)
	}
	if s := l.summary; s.Steps != steps || s.Digest == "" || s.Error != "" || s.MetricsLost == 0 ||
		s.MetricsLost+l.metrics < steps || s.MetricsLost+l.metrics > steps+5 { // with lines of events
		t.Errorf("%d lines of metrics, summary %+v", l.metrics, s.MetricsLost)
	}
}

// A full disk under metrics.jsonl does not end a run.
func TestNoRoomForMetrics(t *testing.T) {
	l := trainUnder(t, limited, filepath.Join(t.TempDir(), "out"), 9, "train.iterations=1500")
	checkMetricsLeftOut(t, l, 1500)
	if len(l.summary.TrainLoss) != 1500 || l.summary.Model == "" {
		t.Errorf("%d losses, model %q", len(l.summary.TrainLoss), l.summary.Model)
	}
	short := trainUnder(t, limited, filepath.Join(t.TempDir(), "out"), 9, "train.iterations=6000")
	checkMetricsLeftOut(t, short, 6000)
	if len(short.summary.TrainLoss) != 0 || short.summary.LossesLeftOut != 6000 {
		t.Errorf("a summary without room for its losses has %d, and leaves out %d", len(short.summary.TrainLoss), short.summary.LossesLeftOut)
	}
}

// A model that cannot be written fails the run. Its summary has the digest and the error.
func TestNoRoomForTheModel(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	l := trainUnder(t, limited, out, 20000, "train.iterations=10")
	want := trainUnder(t, "true", filepath.Join(t.TempDir(), "out"), 20000, "train.iterations=10").summary.Digest
	if l.code != 1 || strings.Count(l.stderr, "\n") != 1 || !strings.HasPrefix(l.stderr, "ecrec: model: ") {
		t.Errorf("exit code %d, stderr %q", l.code, l.stderr)
	}
	if s := l.summary; s.Digest != want || want == "" || s.Model != "" || !strings.HasPrefix(s.Error, "model: ") || len(s.TrainLoss) != 10 {
		t.Errorf("summary %+v, want digest %s", s, want)
	}
	if left, err := filepath.Glob(filepath.Join(out, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file system of a few MiB is really full.
func TestFullDisk(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	switch err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); {
	case errors.Is(err, fs.ErrPermission):
		t.Skip("skipped: only root can mount a small disk; TestNoRoomForMetrics limits files instead")
	case err != nil:
		t.Skip("skipped: a small disk cannot be mounted here: ", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	checkMetricsLeftOut(t, trainUnder(t, "true", filepath.Join(disk, "out"), 9, "train.iterations=2000", "job.save_model=false"), 2000)
}

// A follower whose disk is full ends with one line, and keeps the checkpoint that it had. With more room it continues.
func TestFollowerOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk, topic := filepath.Join(dir, "disk"), "file:"+filepath.Join(dir, "topic")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=96k"); err != nil {
		t.Skip("skipped: a small disk cannot be mounted here: ", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	train := func(steps int) {
		trainUnder(t, "true", filepath.Join(dir, "out"), 20000, fmt.Sprint("train.iterations=", steps), "train.global_batch=64",
			"job.save_model=false",
			"model.embedding_dim=32", "model.bottom_mlp=[32]",
			"ec.commit_every=5", "job.digests=true", "stream.to="+topic, fmt.Sprint("checkpoint.dir=", dir, "/ck"), "checkpoint.every=5",
			"checkpoint.keep=0")
	}
	follow := func(at string) (code int, stderr string) {
		var errs bytes.Buffer
		cmd := exec.Command("ecrec", "follow", topic, "--to", filepath.Join(disk, "made"), "--at", at, "--every", "1h")
		cmd.Stderr = &errs
		_ = cmd.Run() // the exit code is compared
		return cmd.ProcessState.ExitCode(), errs.String()
	}
	train(400)
	if code, stderr := follow("5"); code != 0 {
		t.Fatal(stderr)
	}
	if code, stderr := follow("400"); code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no space left on device") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(disk, "made", "step-000000000005", "manifest.json")); err != nil {
		t.Error(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	if code, stderr := follow("400"); code != 0 {
		t.Fatal(stderr)
	}
	last := "step-000000000400"
	if diff, err := exec.Command("diff", "-r", filepath.Join(disk, "made", last), filepath.Join(dir, "ck",
		last)).CombinedOutput(); err != nil {
		t.Errorf("the checkpoints differ: %s", diff)
	}
	left, _ := filepath.Glob(filepath.Join(disk, "made", "*.tmp-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
