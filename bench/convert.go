package bench

import (
	"bufio"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/inflate"
	"github.com/ecrec/ecrec/internal/machine"
)

var convertBench = Bench{
	Name: "convert",
	Doc:  "conversion of compressed text to a record file, beside its decompression alone",
	Detail: "Text with Criteo's columns, compressed by gzip. The ways take turns: decompression by the program gzip, if there is one, by Go's " +
		"compress/gzip, by klauspost/compress, and by ecrec's decoder; that with a busy loop on another core; conversion. The busy loop shows the wall clock that is left to a decompressor while other work runs, " +
		"on a machine whose cores share units. Ratios of conversion are to the way of each line.",
	Settings: []Setting{
		choice("format", "csv", []string{data.FormatCSV, data.FormatCriteoTSV}, "format of the text"),
		number("samples", "1000000", 1, 100_000_000, "samples of the file, of about 240 bytes of text").orTiny("500"),
		number("threads", "0", 0, 1024, "goroutines that parse; 0: one per CPU"),
		number("pairs", "", 1, 1000, "turns of each way. Default: --repeats").orTiny("2"),
		dirSetting,
	},
	measure: runConvert,
}

// convertTurn is one measurement.
type convertTurn struct{ wall, cpu float64 }

// timeTurn measures one call.
func timeTurn(do func() error) (t convertTurn, err error) {
	began, busy := time.Now(), machine.ProcessTime()
	err = do()
	return convertTurn{time.Since(began).Seconds(), (machine.ProcessTime() - busy).Seconds()}, err
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
	var ways []convertWay
	if program, err := exec.LookPath("gzip"); err == nil {
		ways = append(ways, convertWay{name: "decompress: gzip -dc", do: func() error { return exec.Command(program, "-dc", name).Run() }})
	}
	ways = append(ways, []convertWay{
		{name: "decompress: compress/gzip", do: func() error { return unpackFile(name, openStandard) }},
		{name: "decompress: klauspost", do: func() error { return unpackFile(name, openKlauspost) }},
		{name: "decompress: ecrec", do: func() error { return unpackFile(name, openInflate) }},
		{name: "decompress: ecrec, busy core", wallOnly: true, do: func() error {
			return besideBusyLoop(func() error { return unpackFile(name, openInflate) })
		}},
		{name: "convert", do: func() error {
			to := filepath.Join(dir, "text.rec")
			if _, err := data.Convert(convert, to); err != nil {
				return err
			}
			return os.Remove(to)
		}},
	}...)
	found, err := takeTurns(o, ways, pairs)
	if err != nil {
		return nil, err
	}
	r := o.newReport("none")
	r.writeHeader(out)
	fmt.Fprintf(out, "\n%s, %.0f MB of text, %d turns of each way\n", format, float64(bytes)/1e6, pairs)
	return r, r.addTurns(out, ways, found)
}

// convertWay is something to measure.
type convertWay struct {
	name     string
	do       func() error
	wallOnly bool // its CPU time is not its own
}

// takeTurns measures each way a number of times, by turns. The last way is the one that the others are compared to.
func takeTurns(o Options, ways []convertWay, turns int) (found [][]convertTurn, err error) {
	found = make([][]convertTurn, len(ways))
	for _, way := range ways { // the file is not in memory yet
		o.mustRun()
		if err := way.do(); err != nil {
			return nil, err
		}
	}
	for turn := 0; o.moreTurns(turn, turns); turn++ {
		for i := range ways {
			which := (turn + i) % len(ways)
			t, err := timeTurn(ways[which].do)
			if err != nil {
				return nil, err
			}
			found[which] = append(found[which], t)
		}
	}
	return found, nil
}

// addTurns reports the seconds of each way, and the ratios of the last one to it in the same turns.
func (r *Report) addTurns(out io.Writer, ways []convertWay, found [][]convertTurn) error {
	t := table(out)
	fmt.Fprintln(t, "\twall s\tCPU s\tconvert / it, wall\tinterval\tCPU\tinterval\t")
	last := found[len(found)-1]
	for i, way := range ways {
		line := way.name
		var parts [2]string
		for k, kind := range []struct {
			name string
			of   func(convertTurn) float64
		}{{"wall clock", func(t convertTurn) float64 { return t.wall }}, {"CPU", func(t convertTurn) float64 { return t.cpu }}} {
			if k == 1 && way.wallOnly {
				line, parts[k] = line+"\t", "\t\t"
				continue
			}
			var seconds, converted []float64
			for n, t := range found[i] {
				seconds, converted = append(seconds, max(kind.of(t), 1e-9)), append(converted, kind.of(last[n]))
			}
			line += fmt.Sprintf("\t%.3f", r.addFigure(kind.name+" "+way.name, "s", seconds...).Median)
			if i < len(ways)-1 {
				ratio := r.addRatio(kind.name+" convert / "+way.name, converted, seconds)
				parts[k] = fmt.Sprintf("\t%.2f\t%s", ratio.Median, ratio.betweenText(2))
			}
		}
		fmt.Fprintln(t, line+parts[0]+parts[1]+"\t")
	}
	return t.Flush()
}

// besideBusyLoop does something while another goroutine computes.
func besideBusyLoop(do func() error) error {
	var stop atomic.Bool
	ended := make(chan uint64)
	go func() {
		x := uint64(1)
		for !stop.Load() {
			for range 1000 {
				x = x*6364136223846793005 + x>>33
			}
		}
		ended <- x
	}()
	err := do()
	stop.Store(true)
	<-ended
	return err
}

func openStandard(f io.Reader) (io.Reader, error)  { return stdgzip.NewReader(f) }
func openKlauspost(f io.Reader) (io.Reader, error) { return gzip.NewReader(f) }
func openInflate(f io.Reader) (io.Reader, error)   { return inflate.NewReader(f), nil }

// unpackFile decompresses a file, and drops the text.
func unpackFile(name string, open func(io.Reader) (io.Reader, error)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	z, err := open(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return err
	}
	text := make([]byte, 1<<20)
	for err == nil {
		_, err = z.Read(text)
	}
	if err == io.EOF {
		return nil
	}
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
