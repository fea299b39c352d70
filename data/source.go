package data

import (
	"strings"

	"github.com/ecrec/ecrec/internal/env"
)

// The formats that Open knows.
const (
	FormatSynthetic = "synthetic"
	FormatCriteoBin = "criteo-bin"
	FormatCriteoTSV = "criteo-tsv"
	FormatCSV       = "csv"
	FormatRecord    = "record" // what Convert writes
)

var formats = []string{FormatCSV, FormatCriteoTSV, FormatCriteoBin, FormatRecord, FormatSynthetic}

// Source is random access to the samples of a data set. Reads may run at once
// from several goroutines, each with its own Batch.
type Source interface {
	// Schema is the shape of its samples.
	Schema() Schema
	// Len is the number of samples in one pass; math.MaxInt64 for synthetic data.
	Len() int64
	// Skipped is the number of malformed samples left out (SkipBad).
	Skipped() int64
	// Read fills b with the samples at idx, in that order. It is fastest on runs
	// of consecutive indexes and allocates only to grow b.
	Read(b *Batch, idx []int64) error
	// Close releases the files. No Read may be running.
	Close() error
}

// Options say what to open and how.
type Options struct {
	Env    env.Env
	Format string   // one of the Format constants
	Files  []string // read as if they were one file; none for synthetic data
	Tables []int64  // rows per table, in the order of the categorical features
	CSV    CSV      // for FormatCSV

	// Seed is that of the synthetic data and of nothing else.
	Seed uint64

	// SkipBad leaves malformed samples out and counts them, instead of failing.
	SkipBad bool

	// RecordDir is where text is converted to a record file, once; made when missing.
	RecordDir string
	// Threads is the number of goroutines that parse text; 0 is one per CPU.
	Threads int
	// Progress, if set, is told from time to time how far a long preparation is.
	// It runs on the goroutine that called Open. An error from it ends the work,
	// which goes on from there when started again.
	Progress func(Progress) error
}

// CSV says which columns of a file with a header are what.
type CSV struct {
	Label       string
	Dense       []string // any decimal numbers; empty is 0
	Categorical []string // any text; empty is a value like any other
	Delimiter   byte     // 0 is ','
}

// Progress is how far a long piece of work is.
type Progress struct {
	What        string // "convert", "scan", "synth", "stats", "wait for another conversion"
	Done, Total int64  // bytes for files, samples otherwise; Total 0: not known
}

func (o *Options) progress(what string, done, total int64) error {
	if o.Progress == nil {
		return nil
	}
	return o.Progress(Progress{What: what, Done: done, Total: total})
}

// Open opens a data set. Text (csv, criteo-tsv) is converted first, unless a
// record file of the same, unchanged sources is there already.
func Open(o Options) (Source, error) {
	if o.Format == FormatSynthetic {
		if len(o.Files) > 0 {
			return nil, usageErr("data.format = \"synthetic\" reads no files; remove %q", o.Files[0])
		}
		return newSynthetic(Schema{Dense: criteoDense, Tables: o.Tables}, o.Seed)
	}
	if err := o.checkFiles(); err != nil {
		return nil, err
	}
	switch o.Format {
	case FormatCriteoBin:
		return openCriteoBin(&o)
	case FormatRecord:
		return openRecords(&o, o.Files)
	case FormatCriteoTSV, FormatCSV:
		return openText(&o)
	}
	return nil, usageErr("data.format = %q is not known; it is one of %s", o.Format, strings.Join(formats, ", "))
}

// CheckFiles tells whether every file is there and could be read.
func CheckFiles(e env.Env, files []string) error {
	for _, name := range files {
		f, _, err := openFile(e, name)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

func (o *Options) checkFiles() error {
	if len(o.Files) == 0 {
		return usageErr("no data files are named; set data.train (and data.eval)")
	}
	return nil
}
