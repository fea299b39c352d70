package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBenchReport measures a figure, draws it again, continues it, and refuses bad command lines.
func TestBenchReport(t *testing.T) {
	ecrec(t) // is built from this folder
	t.Chdir(t.TempDir())
	r := run(t, ecrec(t), nil, "bench", "report", "--only", "E-load", "--out", "a")
	if r.code != 0 || r.stderr != "" || !strings.Contains(r.stdout, "1/4  bench load ranks=5 k=2  (E-load)\n") {
		t.Fatalf("%+v", r)
	}
	runs, _ := filepath.Glob("a/runs/load-*.json")
	if len(runs) != 4 || !exists("a/report.json") || !exists("a/E-load.csv") || !exists("a/T-lost.csv") {
		t.Fatalf("files are missing: %v", runs)
	}
	for range 2 { // the second time over files that are there
		if r := run(t, ecrec(t), nil, "bench", "report", "--from", "a", "--out", "b"); r.code != 0 || r.stderr != "" {
			t.Fatalf("%+v", r)
		}
		for _, name := range []string{"index.html", "report.json", "E-load.csv"} {
			if a, b := readFile(t, "a/"+name), readFile(t, "b/"+name); !bytes.Equal(a, b) || len(a) == 0 {
				t.Errorf("%s of a report drawn again differs", name)
			}
		}
	}
	r = run(t, ecrec(t), nil, "bench", "report", "--only", "E-load", "--out", "a", "--resume")
	if r.code != 0 || strings.Count(r.stdout, "measured before") != 4 {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile("file.txt", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, says string }{
		{"--out a", "--resume"}, {"--only E-load,E99 --out c", "unknown figure E99; there are E5 "}, {"--from a --full", "--from measures nothing"},
		{"--quick --full", "can't be used together"}, {"--out .", "is not empty and has no report"}, {"--resume --out c", "no report in c"},
		{"--from c", "no report in this folder"}, {"--out file.txt", "file.txt"},
	} {
		checkRefused(t, run(t, ecrec(t), nil, append([]string{"bench", "report"}, strings.Fields(c.args)...)...), 2, c.says)
	}
	if exists("c") {
		t.Error("a refused report has made its folder")
	}
	if err := os.WriteFile(runs[0], []byte("{"), 0o666); err != nil { // a figure that fails leaves its error on the page
		t.Fatal(err)
	}
	checkRefused(t, run(t, ecrec(t), nil, "bench", "report", "--from", "a", "--out", "b"), 1, "1 figures failed: E-load")
	if page := string(readFile(t, "b/index.html")); !strings.Contains(page, "unexpected end of JSON input") || !strings.Contains(page, `id="T6.12"`) {
		t.Error("the page has no error of E-load, or no other figures")
	}
}

// A signal ends the report after the run that it meets, and the page is written.
func TestSignalStopsBenchReport(t *testing.T) {
	ecrec(t) // is built from this folder
	t.Chdir(t.TempDir())
	got := signalBench(t, syscall.SIGINT, 0, "bench", "report", "--full", "--only", "E-load", "--out", "a")
	checkRefused(t, got, 130, "ecrec: stopped by a signal after ", " of 4 runs; continue with --resume")
	if page := string(readFile(t, "a/index.html")); !strings.Contains(page, "A signal stopped the measurements after") {
		t.Error("the page has nothing about the stop")
	}
	if r := run(t, ecrec(t), nil, "bench", "report", "--full", "--only", "E-load", "--out", "a", "--resume"); r.code != 0 {
		t.Errorf("%+v", r)
	}
	if page := string(readFile(t, "a/index.html")); strings.Contains(page, "A signal stopped") {
		t.Error("the page of a complete report is that of a part")
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
