package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
)

// kafkaFormat is the registry's entry. Package train/feed reads the topic.
var kafkaFormat = Format{
	Name:    FormatKafka,
	Doc:     "messages of a topic, each a row of csv without a header, or of criteo-tsv if [data.csv] names no columns; for training only",
	Keys:    append(slices.Clone(csvTextFormat.Keys), "kafka.columns", "kafka.begin", "kafka.at_end", "kafka.idle"),
	Topic:   true,
	Columns: recordColumnsOrTSV,
	Check:   checkMessages,
}

// MessageFormat is the format of the messages of a topic, and of the files of its evaluation data.
func MessageFormat(c *CSV) string {
	if len(c.Categorical) > 0 {
		return FormatCSV
	}
	return FormatCriteoTSV
}

// recordColumnsOrTSV counts the columns of a message.
func recordColumnsOrTSV(c CSV) (dense, categorical int) {
	if MessageFormat(&c) == FormatCSV {
		return len(c.Dense), len(c.Categorical)
	}
	return criteoDense, criteoTables
}

// checkMessages checks that the columns of a message are named, each once.
func checkMessages(o *Options) error {
	if MessageFormat(&o.CSV) != FormatCSV {
		if len(o.Fields) > 0 {
			return keyError("kafka.columns", "has no effect on messages of %s; name columns in [data.csv], or leave it out", FormatCriteoTSV)
		}
		return nil
	}
	if err := checkCSV(o); err != nil {
		return err
	}
	for _, name := range slices.Concat(o.CSV.Dense, o.CSV.Categorical) {
		if transform, _ := transformOf(o.CSV.Transform, name); transform == TransformStandard {
			return keyError("transform", "%s = %q is computed from all samples, and those of a topic have no end; use \"log1p\" or \"none\"",
				name, transform)
		}
	}
	fields, err := messageFields(o)
	if err != nil {
		return err
	}
	for i, name := range fields {
		if slices.Contains(fields[:i], name) {
			return keyError("kafka.columns", "names column %q twice", name)
		}
	}
	return nil
}

// messageFields lists the columns of a message in the order of its fields.
func messageFields(o *Options) (fields []string, err error) {
	f, err := newCSV(o.CSV)
	if err != nil {
		return nil, err
	}
	var read []string
	for _, name := range f.columnNames() {
		if !slices.Contains(read, name) {
			read = append(read, name)
		}
	}
	if len(o.Fields) == 0 {
		return read, nil
	}
	for _, name := range read {
		if !slices.Contains(o.Fields, name) {
			return nil, keyError("kafka.columns", "column %q is read, and is not among the fields of a message; add it", name)
		}
	}
	return o.Fields, nil
}

// Messages is the Source of the samples in a topic, without access to the topic. It has no end, and is read in the order of
// the topic only, by a MessageParser: Read fails.
type Messages struct {
	// Partitions is the number of partitions of the topic. The caller sets it.
	Partitions int

	name    string
	rows    *Rows
	fields  []string
	weight  string
	schema  Schema
	skipped atomic.Int64
}

// NewMessages returns the source of the messages of Options.Files, which names one topic.
func NewMessages(o *Options) (*Messages, error) {
	if len(o.Files) != 1 {
		return nil, usageErr("data.format = %q reads one topic; data.train names %d", FormatKafka, len(o.Files))
	}
	recipe, err := NewRecipe(*o)
	if err != nil {
		return nil, err
	}
	if !recipe.Complete() {
		return nil, usageErr("rows are counted in files, and the samples of a topic have no end; list the rows in model.tables")
	}
	m := &Messages{name: o.Files[0], weight: o.CSV.Weight}
	ro := RowOptions{Env: o.Env, Format: MessageFormat(&o.CSV), Recipe: recipe}
	if ro.Format == FormatCSV {
		if m.fields, err = messageFields(o); err != nil {
			return nil, err
		}
	}
	if m.weight != "" {
		ro.Keep = []string{m.weight}
	}
	if m.rows, err = OpenRows(ro); err != nil {
		return nil, err
	}
	m.schema = recipe.Schema()
	m.schema.SampleWeights = m.weight != ""
	return m, m.schema.checkLimits()
}

// Name is the name of the topic.
func (m *Messages) Name() string { return m.name }

// Schema implements Source.
func (m *Messages) Schema() Schema { return m.schema }

// Len implements Source: there is no end.
func (m *Messages) Len() int64 { return math.MaxInt64 }

// Skipped implements Source.
func (m *Messages) Skipped() int64 { return m.skipped.Load() }

// SetSkipped sets the number of malformed messages that were left out.
func (m *Messages) SetSkipped(n int64) { m.skipped.Store(n) }

// Close implements Source.
func (m *Messages) Close() error { return nil }

// Read implements Source. It fails: samples of a topic are found in its order only.
func (m *Messages) Read(*Batch, []int64) error {
	return usageErr("%s: samples of a topic are read in their order, and by ecrec train only; write them to a file for other commands", m.name)
}

// MessageParser makes samples of messages. It belongs to one goroutine.
type MessageParser struct {
	of    *Messages
	rows  *RowParser
	chunk RowChunk
	batch RowBatch
	form  fieldForm // of the weight
}

// NewParser returns a parser of the messages.
func (m *Messages) NewParser() (*MessageParser, error) {
	p := &MessageParser{of: m, form: fieldForm{kind: columnWeight}}
	var err error
	if p.rows, err = m.rows.NewParser(); err != nil {
		return nil, err
	}
	p.chunk.chunk.columns = &columns{names: m.fields}
	p.rows.chunk = &p.chunk
	return p, nil
}

// Begin begins a batch of at most n samples. It drops those of the one before.
func (p *MessageParser) Begin(n int) {
	b := &p.batch
	if p.rows.encoder != nil {
		p.rows.encoder.Resize(&b.Batch, n)
	} else {
		b.resize(n, &p.of.schema)
	}
	b.HasLabel, b.Kept = grown(b.HasLabel, n), grown(b.Kept, n*len(p.of.rows.o.Keep))
	b.growWeights(n, &p.of.schema)
}

// Parse makes sample i of the batch of a message. Samples are made in their order; one that is made again replaces the last
// one. It reports false for a message without a row, as one that deletes a key. The mistake has no place.
func (p *MessageParser) Parse(i int, text []byte) (isSample bool, mistake error) {
	if len(trimEOL(text)) == 0 {
		return false, nil
	}
	r := p.rows
	p.chunk.chunk.text, r.text, r.at = text, text, 1
	var bad *Error
	if r.encoder == nil {
		isSample, bad = r.parseTSV(&p.batch, i)
	} else {
		p.chunk.chunk.index.begin(text, r.rows.csv.delimiter, len(p.of.fields))
		isSample, bad = r.parseCSV(&p.batch, i)
	}
	switch {
	case bad != nil:
		return false, &Error{What: strings.Replace(bad.What, "the header has", "data.kafka.columns has", 1)}
	case len(trimEOL(r.text)) > 0:
		return false, &Error{What: "more than one row; a message is one sample"}
	case !isSample:
		return false, nil
	case !p.batch.HasLabel[i]:
		return false, &Error{What: "the label is missing"}
	}
	if p.of.weight != "" {
		var weight [4]byte
		if what := p.form.storeField(p.batch.Kept[i], weight[:], nil); what != "" {
			return false, &Error{What: fmt.Sprintf("field %s %q: %s", p.of.weight, clipText(p.batch.Kept[i]), what)}
		}
		p.batch.SampleWeights[i] = floatOf(weight)
	}
	return true, nil
}

func floatOf(b [4]byte) float32 {
	return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}

func clipText(text []byte) []byte { return text[:min(len(text), 40)] }

// Take copies the samples [from, to) of the batch to dst, in memory of its own.
func (p *MessageParser) Take(from, to int, dst *Batch) {
	b, dense, features := &p.batch, p.of.schema.Dense, p.of.schema.Features()
	dst.N = to - from
	dst.Labels = append(dst.Labels[:0], b.Labels[from:to]...)
	dst.Dense = append(dst.Dense[:0], b.Dense[from*dense:to*dense]...)
	if dst.SampleWeights = dst.SampleWeights[:0]; b.SampleWeights == nil {
		dst.SampleWeights = nil
	}
	if b.SampleWeights != nil {
		dst.SampleWeights = append(dst.SampleWeights, b.SampleWeights[from:to]...)
	}
	if b.Offsets == nil {
		dst.IDs, dst.Offsets, dst.Weights = append(dst.IDs[:0], b.IDs[from*features:to*features]...), nil, nil
		return
	}
	first, last := b.Offsets[from*features], b.Offsets[to*features]
	dst.IDs = append(dst.IDs[:0], b.IDs[first:last]...)
	dst.Offsets = dst.Offsets[:0]
	for _, at := range b.Offsets[from*features : to*features+1] {
		dst.Offsets = append(dst.Offsets, at-first)
	}
	if dst.Weights = dst.Weights[:0]; len(b.Weights) == 0 {
		dst.Weights = nil
		return
	}
	dst.Weights = append(dst.Weights, b.Weights[first:last]...)
}
