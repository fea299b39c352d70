package data

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

// goldenRecords has the sum of the blocks of all corpora's record files, by converterVersion. Version 3 refuses labels of spaces,
// which the corpora lack.
var goldenRecords = map[int]string{1: "e70d6ee7a39eb979", 2: "9ad7781cbc3fb7d0", 3: "9ad7781cbc3fb7d0"}

// Other records of the same files need another version, whose conversions are not those of an older ecrec.
func TestConverterVersion(t *testing.T) {
	text := "y,n,m,c,d\n1,1,,b,2026-01-31\n0,-2.5e3,4,\"a,\"\"b\",NA\n1,, 8 ,b\xff,14102107\r\n\n0,4,NA,3.7,1700000000\n0,1,2,\"b\r\",\"NA\"\r\n1,1,2,b,\"1700000000\"\r\n"
	csv := CSV{Label: "y", Dense: []string{"n", "m"}, Categorical: []string{"c", "d"}, NA: []string{"NA"},
		Transform: map[string]string{"d": TransformHour}}
	bags := CSV{Label: "y", Weight: "m", Dense: []string{"n"}, Categorical: []string{"c", "d"}, Separator: '|', Bags: []string{"c"}, Weighted: true}
	rows, _ := randomRows(rand.New(rand.NewPCG(1, 1)), 100)
	h := xxh3.New()
	for _, o := range []Options{
		{Format: FormatCSV, CSV: csv, Files: []string{writeFile(t, "a.csv", []byte(text))}},
		{Format: FormatCSV, CSV: bags, Files: []string{writeFile(t, "b.csv", []byte("y,n,m,c,d\n1,1,2,a|b:0.5,x\n0,1,0,,y\n"))}},
		{Format: FormatCriteoTSV, Files: []string{writeFile(t, "a.tsv", tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 5000)))}},
		{Format: FormatParquet, CSV: parquetGolden, Files: []string{writeParquet(t, rand.New(rand.NewPCG(1, 1)), "a.parquet", rows)}},
	} {
		o.Env, o.Threads = env.Real(), 1
		c, err := Convert(o, filepath.Join(t.TempDir(), "a.rec"))
		if err != nil {
			t.Fatal(o.Format, err)
		}
		b, err := os.ReadFile(c.File)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b[recordHeaderBytes:])
	}
	if got := fmt.Sprintf("%016x", h.Sum64()); got != goldenRecords[converterVersion] {
		t.Errorf("the records of version %d sum to %s, want %q: raise converterVersion, and add its sum", converterVersion, got, goldenRecords[converterVersion])
	}
}

// parquetGolden reads one column of each type.
var parquetGolden = CSV{Label: "label", Dense: []string{"i", "f", "d"}, Categorical: []string{"s", "p", "n", "x", "u", "money", "day", "at", "b"}}

// The name of a conversion holds the version of the converter.
func TestCacheName(t *testing.T) {
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Files: []string{writeFile(t, "a.tsv", tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 3)))}}
	j, err := newConversion(&o)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := filepath.Abs(o.Files[0])
	key := fmt.Sprintf("converter %d %q %q", converterVersion, FormatCriteoTSV, path)
	if want := fmt.Sprintf("a-%016x.rec", xxh3.HashString(key)); j.defaultName() != want {
		t.Errorf("%s, want %s, of the key %s", j.defaultName(), want, key)
	}
}

// A run that accepts no malformed lines does not continue the conversion of one that skipped some.
func TestCacheOfSkippedLines(t *testing.T) {
	text := slices.Concat([]byte("x\n"), tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 40_000)))
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, SkipBad: true, Threads: 1, RecordDir: t.TempDir(), Files: []string{writeFile(t, "a.tsv", text)}}
	stop, budget := errors.New("stop"), 5
	o.Progress = func(Progress) error {
		if budget--; budget == 0 {
			return stop
		}
		return nil
	}
	if _, err := Convert(o, ""); err != stop {
		t.Fatal(err)
	}
	o.SkipBad, budget = false, 1000
	if c, err := Convert(o, ""); err == nil || !strings.Contains(err.Error(), "a.tsv:1: ") {
		t.Errorf("%+v, %v", c, err)
	}
	o.SkipBad = true
	if c, err := Convert(o, ""); err != nil || c.Skipped != 1 || c.Samples != 40_000 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A conversion that resumes trusts no block behind a damaged one, as a power cut may leave: it makes the samples of one that was not stopped.
func TestCacheOfDamagedBlock(t *testing.T) {
	text := tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), 40_000))
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Threads: 1, RecordDir: t.TempDir(),
		Files: []string{writeFile(t, "a.tsv", text)}, Tables: testTables}
	want := readAllOf(t, mustOpen(t, o))
	o.RecordDir = t.TempDir()
	stop, budget := errors.New("stop"), 5
	o.Progress = func(Progress) error {
		if budget--; budget == 0 {
			return stop
		}
		return nil
	}
	if _, err := Convert(o, ""); err != stop {
		t.Fatal(err)
	}
	parts, _ := filepath.Glob(filepath.Join(o.RecordDir, "*.part"))
	h := newRecordHeader(recordCriteo, criteoDense, criteoTables, [16]byte{})
	l := h.blockLayout()
	size := l.blockBytes(l.blockRecords)
	b, err := os.ReadFile(parts[0])
	if err != nil || int64(len(b)) < recordHeaderBytes+2*size {
		t.Fatalf("%d bytes, want some blocks of %d: %v", len(b), size, err)
	}
	clear(b[recordHeaderBytes:][:size])
	writeTo(t, parts[0], b)
	sameBatch(t, "resumed", readAllOf(t, mustOpen(t, o)), want)
}

// convertEnv is set in a process that only converts: the files, the folder and the pause at each progress.
const convertEnv = "ECREC_TEST_CONVERT"

// TestConvertProcess is the process that others start, and kill.
func TestConvertProcess(t *testing.T) {
	settings := strings.Split(os.Getenv(convertEnv), "\n")
	if len(settings) != 3 {
		t.Skip("is started by other tests")
	}
	pause, err := time.ParseDuration(settings[2])
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Env: env.Real(), Format: FormatCriteoTSV, Files: settings[:1], RecordDir: settings[1]}
	o.Progress = func(p Progress) error {
		fmt.Printf("%s %d\n", p.What, p.Done)
		time.Sleep(pause)
		return nil
	}
	c, err := Convert(o, "")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("done %s %d %t\n", filepath.Base(c.File), c.Samples, c.Made)
}

// startConvert starts a process that converts a file into a folder.
func startConvert(t *testing.T, file, dir string, pause time.Duration) (kill func(), lines *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestConvertProcess$")
	cmd.Env = append(os.Environ(), convertEnv+"="+strings.Join([]string{file, dir, pause.String()}, "\n"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return kill, bufio.NewScanner(out)
}

// Runs with one cache convert once. If one is killed in the middle, another that waited continues its work.
func TestCacheAfterKill(t *testing.T) {
	const n = 60_000
	name, dir := writeFile(t, "a.tsv", tsvOf(randomRecords(rand.New(rand.NewPCG(1, 1)), n))), t.TempDir()
	kill, first := startConvert(t, name, dir, 50*time.Millisecond)
	for range 8 { // chunks of 1 MiB, so that blocks are written
		first.Scan()
	}
	if !strings.HasPrefix(first.Text(), "convert ") {
		t.Fatalf("the first process says %q", first.Text())
	}
	_, second := startConvert(t, name, dir, 0)
	if second.Scan(); !strings.HasPrefix(second.Text(), "waiting for another process") {
		t.Fatalf("the second process says %q", second.Text())
	}
	kill()
	var said []string
	for second.Scan() {
		if text := second.Text(); !strings.HasPrefix(text, "waiting") {
			said = append(said, text)
		}
	}
	resumed := slices.IndexFunc(said, func(s string) bool { return strings.HasPrefix(s, "convert ") })
	var at int64
	if resumed < 0 {
		t.Fatalf("it did not convert: %q", said)
	}
	if _, err := fmt.Sscanf(said[resumed], "convert %d", &at); err != nil || at < 3<<20 {
		t.Errorf("it began anew: %q", said)
	}
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.HasPrefix(s, "done a-") && strings.HasSuffix(s, fmt.Sprintf(".rec %d true", n))
	}) {
		t.Errorf("it did not end: %q", said)
	}
	_, third := startConvert(t, name, dir, 0)
	if third.Scan(); !strings.HasSuffix(third.Text(), fmt.Sprintf(".rec %d false", n)) {
		t.Errorf("the third process says %q", third.Text())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("in the cache: %q", left)
	}
}
