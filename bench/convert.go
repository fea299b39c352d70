package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
)

var convertBench = Bench{
	Name:   "convert",
	Doc:    "conversion of compressed text to a record file, beside its decompression alone",
	Detail: "Text with Criteo's columns, compressed by gzip. The turns alternate. A ratio of 1 is the speed of the decompressor.",
	Settings: []Setting{
		choice("format", "csv", []string{data.FormatCSV, data.FormatCriteoTSV}, "format of the text"),
		number("samples", "1000000", 1, 100_000_000, "samples of the file, of about 240 bytes of text").orTiny("500"),
		number("threads", "0", 0, 1024, "goroutines that parse; 0: one per CPU"),
		number("pairs", "", 1, 1000, "pairs of turns. Default: --repeats").orTiny("2"),
		dirSetting,
	},
	measure: runConvert,
}

// convertTurn is one measurement.
type convertTurn struct{ wall, cpu float64 }

// timeTurn measures one call.
func timeTurn(do func() error) (t convertTurn, err error) {
	began, busy := time.Now(), cpuTime()
	err = do()
	return convertTurn{time.Since(began).Seconds(), (cpuTime() - busy).Seconds()}, err
}

func runConvert(out io.Writer, o Options) (*Report, error) {
	dir, err := o.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pairs, format := o.number("pairs"), o.text("format")
	if pairs == 0 {
		pairs = o.repeats()
	}
	name := filepath.Join(dir, "text.gz")
	bytes, columns, err := writeCriteoText(name, format, int64(o.number("samples")))
	if err != nil {
		return nil, err
	}
	convert := data.Options{Env: env.Real(), Format: format, Files: []string{name}, CSV: columns, Threads: o.number("threads")}
	ways := []func() error{
		func() error { return unpackFile(name) },
		func() error {
			to := filepath.Join(dir, "text.rec")
			if _, err := data.Convert(convert, to); err != nil {
				return err
			}
			return os.Remove(to)
		},
	}
	var found [2][]convertTurn // of decompression, of conversion
	for pair := range pairs + 1 {
		for i := range ways {
			which := (pair + i) % 2
			turn, err := timeTurn(ways[which])
			if err != nil {
				return nil, err
			}
			if pair > 0 { // else the file is not in memory yet
				found[which] = append(found[which], turn)
			}
		}
	}
	r := newReport("convert", "none")
	r.writeHeader(out)
	fmt.Fprintf(out, "\n%s, %.0f MB of text, %d pairs of turns\n", format, float64(bytes)/1e6, pairs)
	return r, r.addTurns(out, found)
}

// addTurns reports seconds of both ways, and the ratios of neighbouring turns.
func (r *Report) addTurns(out io.Writer, found [2][]convertTurn) error {
	t := table(out)
	fmt.Fprintln(t, "\tdecompress s\tconvert s\tratio\tinterval\t")
	for _, kind := range []struct {
		name string
		of   func(convertTurn) float64
	}{{"wall clock", func(t convertTurn) float64 { return t.wall }}, {"CPU", func(t convertTurn) float64 { return t.cpu }}} {
		var seconds [2][]float64
		var ratios []float64
		for i := range found[0] {
			a, b := kind.of(found[0][i]), kind.of(found[1][i])
			seconds[0], seconds[1], ratios = append(seconds[0], a), append(seconds[1], b), append(ratios, b/max(a, 1e-9))
		}
		low, high := medianInterval(ratios)
		a, b := r.addFigure(kind.name+" decompress", "s", seconds[0]...), r.addFigure(kind.name+" convert", "s", seconds[1]...)
		ratio := r.addFigure(kind.name+" convert / decompress", "", ratios...)
		r.addFigure(kind.name+" convert / decompress, 95 % interval", "", low, high)
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.2f\t%.2f-%.2f\t\n", kind.name, a.Median, b.Median, ratio.Median, low, high)
	}
	return t.Flush()
}

// unpackFile decompresses a file, and drops the text.
func unpackFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, z)
	return err
}

// writeCriteoText writes synthetic samples with Criteo's columns as compressed text. It returns the size of
// the text, and the columns of CSV.
func writeCriteoText(name, format string, samples int64) (size int64, columns data.CSV, err error) {
	tables, err := data.Tables("criteo-kaggle")
	if err != nil {
		return 0, columns, err
	}
	src, err := data.Open(data.Options{Format: data.FormatSynthetic, Tables: tables, Seed: oracleSeed})
	if err != nil {
		return 0, columns, err
	}
	defer func() { _ = src.Close() }()
	f, err := os.Create(name)
	if err != nil {
		return 0, columns, err
	}
	defer func() { _ = f.Close() }()
	z := gzip.NewWriter(f)
	text := bufio.NewWriterSize(&countedWriter{to: z, n: &size}, 1<<20)
	separator := "\t"
	if format == data.FormatCSV {
		separator = ","
		columns = criteoColumns(src.Schema().Dense, len(tables))
		fmt.Fprintln(text, strings.Join(append(append([]string{columns.Label}, columns.Dense...), columns.Categorical...), separator))
	}
	var b data.Batch
	for at := int64(0); at < samples; at++ {
		if err := src.Read(&b, []int64{at}); err != nil {
			return 0, columns, err
		}
		fmt.Fprintf(text, "%d", int(b.Labels[0]))
		for _, x := range b.Dense {
			if x == 0 {
				fmt.Fprint(text, separator) // as missing
			} else {
				fmt.Fprintf(text, "%s%d", separator, int(x*x*10))
			}
		}
		for _, id := range b.IDs {
			fmt.Fprintf(text, "%s%08x", separator, id*0x9E3779B1)
		}
		fmt.Fprintln(text)
	}
	if err := text.Flush(); err != nil {
		return 0, columns, err
	}
	return size, columns, z.Close()
}

// criteoColumns names the columns of a sample.
func criteoColumns(dense, categorical int) data.CSV {
	c := data.CSV{Label: "label"}
	for i := range dense {
		c.Dense = append(c.Dense, fmt.Sprintf("I%d", i+1))
	}
	for i := range categorical {
		c.Categorical = append(c.Categorical, fmt.Sprintf("C%d", i+1))
	}
	return c
}

// countedWriter counts the bytes that pass.
type countedWriter struct {
	to io.Writer
	n  *int64
}

func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	*w.n += int64(n)
	return n, err
}
