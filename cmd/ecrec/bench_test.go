package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The figures of bench collectives are measured between real processes. They exchange no wrong
// element, and only process 0 prints.
func TestBenchCollectives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	r := run(t, ecrec(t), nil, "bench", "collectives", "--np", "2", "sizes=4096", "--repeats", "1", "--json", path)
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("%+v", r)
	}
	for _, table := range []string{"\nshm, 2 processes", "\ntcp, 2 processes", "\nmem, 2 ranks of one process"} {
		if strings.Count(r.stdout, table) != 1 {
			t.Errorf("%q is not printed once: %s", table, r.stdout)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Against string
		Figures []struct {
			Name     string
			Min, Max float64
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	times, wrong, ratios := 0, 0, 0
	for _, f := range report.Figures {
		switch {
		case strings.HasSuffix(f.Name, " wrong"):
			wrong++
			if f.Max != 0 {
				t.Errorf("%+v", f)
			}
		case strings.HasSuffix(f.Name, " ratio to mpi"):
			ratios++
		case strings.HasSuffix(f.Name, " B"):
			times++
		}
		if f.Min <= 0 && !strings.HasSuffix(f.Name, " wrong") {
			t.Errorf("%+v", f)
		}
	}
	wantRatios := 4
	if report.Against == "" {
		wantRatios = 0
	}
	if times != 12 || wrong != 12 || ratios != wantRatios {
		t.Errorf("%d times, %d counts of wrong elements, %d ratios: %s", times, wrong, ratios, text)
	}
	if noted := strings.Contains(r.stdout, "Open MPI is not measured beside shm: "); noted != (wantRatios == 0) {
		t.Errorf("%d ratios: %s", ratios, r.stdout)
	}
}

func TestBenchRefuses(t *testing.T) {
	for says, args := range map[string][]string{
		"runs in one process": {"kernels", "--np", "2"},
		"between processes":   {"collectives", "--np", "1"},
		"transport=x":         {"collectives", "transport=x"},
		"give --np P to":      {"collectives", "--rdzv", "127.0.0.1:29400"},
		`sizes=1: "1": want `: {"collectives", "sizes=1"},
		"make build-mpi":      {"collectives", "--transport", "mpi"},
	} {
		checkRefused(t, run(t, ecrec(t), nil, append([]string{"bench"}, args...)...), 2, says)
	}
}

// Processes started by mpirun connect without --np.
func TestBenchCollectivesUnderMpirun(t *testing.T) {
	if version, _ := exec.Command("mpirun", "--version").Output(); !bytes.Contains(version, []byte("Open MPI")) {
		t.Skip("needs Open MPI's mpirun")
	}
	vars := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo"}
	r := run(t, "mpirun", vars, "-np", "3", "--oversubscribe", ecrec(t), "bench", "collectives", "--repeats", "1",
		"sizes=4096", "transport=tcp")
	if r.code != 0 || strings.Count(r.stdout, "tcp, 3 processes") != 1 {
		t.Errorf("%+v", r)
	}
}

// A benchmark that a signal stops says how far it was, and reports the turns that are complete.
func TestSignalStopsBench(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		path := filepath.Join(t.TempDir(), "report.json")
		got := signalBench(t, signal, time.Second, "bench", "sealed", "sizes=1048576", "pairs=1000", "--json", path)
		for wait := 4 * time.Second; strings.Contains(got.stderr, "before anything"); wait *= 4 { // no turn was complete
			if wait > patience {
				t.Fatalf("no turn was complete: %+v", got)
			}
			got = signalBench(t, signal, wait, "bench", "sealed", "sizes=1048576", "pairs=1000", "--json", path)
		}
		checkRefused(t, got, code, "ecrec: stopped by a signal after ", " of 1000 turns\n")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Incomplete string
			Figures    []struct{ N int }
			Load       struct{ Seconds float64 }
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint(report.Figures[0].N) + " of 1000 turns"; report.Incomplete != want || report.Load.Seconds <= 0 {
			t.Errorf("%+v, want %s", report, want)
		}
	}
}

// signalBench starts a command, and sends a signal to it some time after its first output.
func signalBench(t *testing.T, signal syscall.Signal, wait time.Duration, args ...string) ended {
	t.Helper()
	cmd, stdout, stderr := start(ecrec(t), nil, args...)
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	until(t, "the header", func() bool {
		info, err := out.Stat()
		return err == nil && info.Size() > 0
	})
	time.Sleep(wait)
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	return ended{exitCode(t, cmd.Wait()), stdout.String(), stderr.String()}
}

// --bar prints a line for each bar, and exits with 1 unless all hold.
func TestBenchBar(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	r := run(t, ecrec(t), nil, "bench", "serve", "ms=20", "conns=2", "markers=10", "--repeats", "2", "--bar", "--json", path)
	if r.code != 1 || !strings.Contains(r.stdout, "\nbar not shown  20,000 predictions") || !strings.Contains(r.stdout, "2 pairs): too few, it takes 6; lower 95 % bound at least 0.6") {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.stderr, "of 1 bars 0 are missed and 1 not shown") {
		t.Errorf("%q", r.stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"verdict": "not shown"`) {
		t.Errorf("%v: %s", err, text)
	}
	checkRefused(t, run(t, ecrec(t), nil, "bench", "cache", "--bar"), 2, "cache has no bars")
	checkRefused(t, run(t, ecrec(t), nil, "bench", "overhead", "k=2", "--bar"), 2, "no bar of overhead holds for these settings")
	checkRefused(t, run(t, ecrec(t), nil, "bench", "serve", "--repeats", "0"), 2, "--repeats must be at least 1")
}

func TestSignalStopsBenchCollectives(t *testing.T) {
	cmd, stdout, stderr := start(ecrec(t), nil, "bench", "collectives", "--np", "2", "--repeats", "1000000", "sizes=64K", "transport=tcp")
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	until(t, "the header", func() bool {
		info, err := out.Stat()
		return err == nil && info.Size() > 0
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, ended{exitCode(t, cmd.Wait()), stdout.String(), stderr.String()}, 130, "stopped by a signal")
}
