package data

import "bytes"

// A TSVEncoder makes samples of the fields of rows of criteo-tsv, as an Encoder does for columns with names: of 13 integers and 26
// hexadecimal ids. It belongs to one goroutine.
type TSVEncoder struct {
	codec  criteoCodec
	schema Schema
	line   []byte
	record [criteoBytes]byte
}

// NewTSVEncoder returns an encoder for tables of the sizes that a recipe has.
func (r *Recipe) NewTSVEncoder() (*TSVEncoder, error) {
	schema, err := criteoSchema(r.Schema())
	if err != nil {
		return nil, err
	}
	return &TSVEncoder{codec: criteoCodec{mod: moduli(schema.FeatureRows())}, schema: schema}, nil
}

// Resize is that of Encoder.
func (e *TSVEncoder) Resize(b *Batch, n int) { b.resize(n, &e.schema) }

// EncodeSample is that of Encoder.
func (e *TSVEncoder) EncodeSample(b *Batch, i int, fields [][]byte) (bad int, what string) {
	e.line = append(e.line[:0], '0')
	for j, text := range fields {
		if bytes.ContainsAny(text, "\t\r\n") {
			return j, "a tab or the end of a line is in it"
		}
		e.line = append(append(e.line, '\t'), text...)
	}
	if _, fault := parseTSVLine(e.line, &e.record); fault.what != "" {
		return max(0, fault.field-2), fault.what // the first field is the label
	}
	e.codec.decode(b, i, e.record[:])
	return -1, ""
}
