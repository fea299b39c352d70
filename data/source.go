package data

import (
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

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

// Options describe a data set and how to open it.
type Options struct {
	Env    env.Env
	Format string   // the name of an entry of Formats
	Files  []string // names, as in ListFiles; read as if they were one file; none for synthetic data
	Tables []int64  // rows per table, in the order of the categorical features; 0: Fit counts them
	// TableOf is the table of each categorical feature. Nil: feature f looks up table f.
	TableOf []int
	// Hots is the number of ids of each feature of synthetic data. Nil: one.
	Hots []int
	// Law is the law of the ids of synthetic data, one of Laws. Empty: LawIndependent.
	Law string
	CSV CSV // for formats whose columns have names
	// Fields are the columns of a message of a topic, in the order of its fields. Nil: the label, the weight, the numbers and
	// the categories.
	Fields []string

	// Seed is that of the synthetic data and of nothing else.
	Seed uint64

	// SkipBad leaves malformed samples out and counts them, instead of failing.
	SkipBad bool

	// MinCount is the least number of samples with a text that gives it a row of its own, in
	// tables that Fit counts.
	MinCount int64
	// Recipe is the result of Fit, where Tables has zeros or a transform has parameters. Open
	// needs it there.
	Recipe *Recipe
	// Split selects the part of the samples that Fit and Open read; the zero Split is all.
	Split Split

	// RecordDir is where text is converted to a record file, once; made when missing. Other
	// runs may use it at the same time.
	RecordDir string
	// Threads is the number of goroutines that parse text; 0 is one per CPU.
	Threads int
	// Progress, if set, is called from time to time in a long preparation, on the
	// goroutine that called Open. If it returns an error, the work ends. The next call
	// of Open resumes it.
	Progress func(Progress) error

	limits fitLimits // of a test

	raw bool // samples are read as the record file has them; see rawCodec
}

// CSV names the columns of a file with a header.
type CSV struct {
	Label       string
	Dense       []string // any decimal numbers; empty is 0
	Categorical []string // any text; empty is a value like any other
	Weight      string   // the sample's weight, a number that is not negative; "": all weights are 1
	Delimiter   byte     // 0 is ','
	// NA lists texts that mean missing. The empty text always does.
	NA []string
	// Transform is the transform of each column that has not the default one.
	Transform map[string]string

	// Separator separates the ids of a field of Bags. 0: each field is one id, except of lists in
	// Parquet files.
	Separator byte
	// Bags are those of Categorical with several ids. Nil: all, if there is a separator.
	Bags []string
	// Weighted fields of Bags have ids with weights, as in id:0.5; an id without one has
	// weight 1.
	Weighted bool
}

// bagMask reports which of Categorical are bags. Nil: none.
func (c *CSV) bagMask() []bool {
	if c.Separator == 0 && len(c.Bags) == 0 {
		return nil
	}
	mask := make([]bool, len(c.Categorical))
	for f, name := range c.Categorical {
		mask[f] = len(c.Bags) == 0 || slices.Contains(c.Bags, name)
	}
	return mask
}

// schema is the shape of samples with a number of dense features.
func (o *Options) schema(dense int) Schema {
	return Schema{Dense: dense, Tables: o.Tables, TableOf: o.TableOf}
}

// featureRows is the number of rows of the table of each feature.
func (o *Options) featureRows() []int64 {
	s := o.schema(0)
	return s.FeatureRows()
}

// Progress is how far a long piece of work is.
type Progress struct {
	What        string // "convert", "scan", "synth", "stats", "waiting for another process to convert the data"; "": the wait is over
	Done, Total int64  // bytes of files, or samples of other work; Total 0: not counted
}

func (o *Options) reportProgress(what string, done, total int64) error {
	if o.Progress == nil {
		return nil
	}
	return o.Progress(Progress{What: what, Done: done, Total: total})
}

// Open opens a data set. Text is converted first, unless a
// record file of the same, unchanged sources is there already.
func Open(o Options) (Source, error) {
	f, err := o.findFormat()
	if err != nil {
		return nil, err
	}
	switch {
	case f.Endless && len(o.Files) > 0:
		return nil, usageErr("data.format = %q reads no files; remove %q", f.Name, o.Files[0])
	case !f.Endless && !f.Topic:
		err = o.listFiles()
	}
	if err != nil {
		return nil, err
	}
	var src Source
	if f.Topic {
		return NewMessages(&o)
	} else if f.IsConverted() {
		src, err = openText(f, &o)
	} else {
		src, err = f.Open(&o)
	}
	if err != nil || o.Split.isAll() {
		return src, err
	}
	return o.Split.cut(src)
}

// CheckFiles returns an error if a file is missing or cannot be read.
func CheckFiles(e env.Env, names []string) error {
	files, err := ListFiles(e, names)
	if err != nil {
		return err
	}
	for _, name := range files {
		f, _, err := openFile(e, name)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// listFiles replaces the names in Files by the files that they mean, one at least.
func (o *Options) listFiles() (err error) {
	if len(o.Files) == 0 {
		return usageErr("no data files are named; set data.train (and data.eval)")
	}
	o.Files, err = ListFiles(o.Env, o.Files)
	return err
}

// part is a part of a source.
type part struct {
	Source
	split Split
	whole int64 // samples of the source
}

// cut returns the part of a source. It closes the source if there is no such part.
func (s Split) cut(src Source) (Source, error) {
	n := src.Len()
	if s.length(n) > 0 && (Split{Part: s.Part, Of: s.Of, Eval: !s.Eval}).length(n) > 0 {
		return &part{src, s, n}, nil
	}
	src.Close()
	return nil, usageErr("data.eval = %q: %d samples are too few to be split; add samples, or name a file in data.eval", s.String(), n)
}

func (p *part) Len() int64 { return p.split.length(p.whole) }

func (p *part) Read(b *Batch, idx []int64) error {
	m := &blockSplit{Split: p.split, n: p.whole, eval: b.split[:0], block: -1}
	b.mapped = grown(b.mapped, len(idx))
	for i, at := range idx {
		if at < 0 || at >= p.Len() {
			return usageErr("sample %d is out of range; there are %d", at, p.Len())
		}
		b.mapped[i] = m.mapIndex(at)
	}
	b.split = m.eval
	return p.Source.Read(b, b.mapped)
}

// checkBags checks the settings of fields with several ids.
func checkBags(v *CSV, lists bool) error {
	const unused = "has no effect without a separator; set data.csv.separator, such as \"|\""
	switch {
	case v.Separator == 0 && len(v.Bags) > 0 && !lists:
		return keyError("csv.bags", unused)
	case v.Separator == 0 && v.Weighted && (!lists || len(v.Bags) == 0):
		return keyError("csv.weighted", unused)
	case v.Separator != 0 && (v.Separator == v.Delimiter || v.Separator == '"' || v.Separator == '\n' || v.Separator == '\r'):
		return keyError("csv.separator", "%q separates fields, lines or quotes; choose another byte, such as \"|\"", v.Separator)
	case v.Separator == ':' && v.Weighted:
		return keyError("csv.separator", "\":\" separates an id from its weight; choose another byte, such as \"|\"")
	}
	for i, name := range v.Bags {
		if !slices.Contains(v.Categorical, name) || slices.Contains(v.Bags[:i], name) {
			return keyError("csv.bags", "column %q is not in data.csv.categorical, or is named twice", name)
		}
	}
	return nil
}
