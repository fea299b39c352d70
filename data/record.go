package data

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/zeebo/xxh3"
)

// recordFormat is the registry's entry.
var recordFormat = Format{
	Name:    FormatRecord,
	Doc:     "a record file, as ecrec data convert writes it; of csv's columns if [data.csv] names them, else of Criteo's",
	Endings: []string{".rec"},
	Keys:    []string{"csv.dense", "csv.categorical"},
	Columns: recordColumns,
	Open:    openRecordFiles,
}

// recordColumns counts the columns of [data.csv], or Criteo's if it names no categories.
func recordColumns(c CSV) (dense, categorical int) {
	if len(c.Categorical) > 0 {
		return len(c.Dense), len(c.Categorical)
	}
	return criteoDense, Any
}

// openRecordFiles opens record files. The model is laid out for the dense features of the settings,
// so files with another number are refused.
func openRecordFiles(o *Options) (Source, error) {
	s, err := openRecords(o, o.Files)
	if err != nil {
		return nil, err
	}
	has := s.Schema().Dense
	dense, categorical := recordColumns(o.CSV)
	if has == dense {
		return s, nil
	}
	s.Close()
	if categorical == Any {
		return nil, fileErr(o.Files[0], "its samples have %d dense features, not Criteo's %d; repeat the [data.csv] that it was converted with",
			has, dense)
	}
	return nil, fileErr(o.Files[0], "its samples have %d dense features, but data.csv.dense names %d; repeat the [data.csv] that it was converted with", has, dense)
}

// A record file holds parsed text, for any tables: raw numbers and 64-bit hashes. All of
// it is little-endian.
//
//	header   recordHeaderBytes, see recordHeader
//	block    blockRecords records (the last block may have fewer)
//	         trailer: see blockTrailer, ending with a checksum of the block
//	...
//
// Until it is complete it is called NAME.part, and its header counts 0 samples. The
// trailer of each block holds the position in the sources where the block ended, so
// that a conversion resumes behind the complete blocks at its beginning.
//
// Version 2 is for samples with bags: see bagheader.go.
const (
	recordVersion     = 1
	bagsVersion       = 2
	recordHeaderBytes = 4096
	trailerBytes      = 48
	maxBlockBytes     = 1 << 20
	maxBlockRecords   = shuffleBlock
)

// recordHeader is the header of a record file, in this order.
type recordHeader struct {
	kind         recordKind
	dense        uint32
	tables       uint32
	recordBytes  uint32
	blockRecords uint32
	samples      uint64 // 0: not complete
	skipped      uint64 // malformed lines left out
	source       [16]byte
	bags         bagHeader // of version 2
}

func newRecordHeader(kind recordKind, dense, tables int, source [16]byte) recordHeader {
	h := recordHeader{kind: kind, dense: uint32(dense), tables: uint32(tables), source: source}
	h.recordBytes = h.wantRecordBytes()
	h.blockRecords = maxBlockRecords
	for h.blockRecords > 1 && h.blockRecords*h.recordBytes > maxBlockBytes {
		h.blockRecords /= 2
	}
	return h
}

// setBags makes h the header of a file of version 2, if there is a mask.
func (h *recordHeader) setBags(mask []bool, weighted bool) {
	if mask == nil {
		return
	}
	h.bags = bagHeader{mask: mask, weighted: weighted}
	h.recordBytes = h.wantRecordBytes()
	h.blockRecords = min(h.blockRecords, bagBlockRecords)
}

func (h *recordHeader) wantRecordBytes() uint32 {
	size := uint32(h.kind.headBytes()) + 4*h.dense + 8*h.tables
	switch {
	case h.kind == recordCriteo:
		return criteoBytes
	case h.bags.mask != nil:
		return size + 4
	}
	return size
}

func (h *recordHeader) blockLayout() layout {
	return layout{headerBytes: recordHeaderBytes, recordBytes: int64(h.recordBytes),
		blockRecords: int64(h.blockRecords), trailerBytes: trailerBytes}
}

// fileBytes is the size of the complete file.
func (h *recordHeader) fileBytes() int64 {
	blocks := (h.samples + uint64(h.blockRecords) - 1) / uint64(h.blockRecords)
	if h.bags.mask != nil {
		return int64(h.bags.indexAt) + 8*int64(blocks+1)
	}
	return recordHeaderBytes + int64(h.samples)*int64(h.recordBytes) + int64(blocks)*trailerBytes
}

func (h *recordHeader) encodeHeader() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, recordHeaderBytes), recordMagic...)
	version := uint32(recordVersion)
	if h.bags.mask != nil {
		version = bagsVersion
	}
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, uint32(h.kind))
	b = le.AppendUint32(b, h.dense)
	b = le.AppendUint32(b, h.tables)
	b = le.AppendUint32(b, h.recordBytes)
	b = le.AppendUint32(b, h.blockRecords)
	b = le.AppendUint64(b, h.samples)
	b = le.AppendUint64(b, h.skipped)
	b = append(b, h.source[:]...)
	b = b[:recordHeaderBytes]
	h.bags.putFields(b)
	le.PutUint64(b[recordHeaderBytes-8:], xxh3.Hash(b[:recordHeaderBytes-8]))
	return b
}

func decodeRecordHeader(name string, b []byte) (h recordHeader, err error) {
	le := binary.LittleEndian
	if len(b) < len(recordMagic) || string(b[:len(recordMagic)]) != recordMagic {
		return h, fileErr(name, "not a record file")
	}
	if len(b) < recordHeaderBytes {
		return h, fileErr(name, "the record file is cut short within its header; delete it to convert the sources again")
	}
	version := le.Uint32(b[8:])
	if version != recordVersion && version != bagsVersion {
		return h, fileErr(name, "the record file has version %d, this ecrec reads versions up to %d; delete it to convert the sources again",
			version, bagsVersion)
	}
	if le.Uint64(b[recordHeaderBytes-8:]) != xxh3.Hash(b[:recordHeaderBytes-8]) {
		return h, fileErr(name, "the record file's header is damaged; delete it to convert the sources again")
	}
	h.kind = recordKind(le.Uint32(b[12:]))
	h.dense, h.tables = le.Uint32(b[16:]), le.Uint32(b[20:])
	h.recordBytes, h.blockRecords = le.Uint32(b[24:]), le.Uint32(b[28:])
	h.samples, h.skipped = le.Uint64(b[32:]), le.Uint64(b[40:])
	copy(h.source[:], b[48:64])
	if version == bagsVersion && h.tables <= maxTables {
		h.bags.readFields(b, int(h.tables))
	}
	if h.kind > recordScaled || h.bags.mask != nil && h.kind == recordCriteo || h.dense > maxDense || h.tables > maxTables || h.recordBytes != h.wantRecordBytes() ||
		h.blockRecords < 1 || h.blockRecords > maxBlockRecords || h.samples > math.MaxInt64/(2*uint64(h.recordBytes)+2*trailerBytes) ||
		h.kind == recordCriteo && (h.dense != criteoDense || h.tables != criteoTables) {
		return h, fileErr(name, "the record file's header is inconsistent; delete it to convert the sources again")
	}
	return h, nil
}

// blockTrailer is the position in the sources where a block ended: behind the good-th
// well-formed line from the place on.
type blockTrailer struct {
	at      place
	good    int64 // lines from at on that are in this block or earlier ones
	skipped int64 // malformed lines before at
}

func (t *blockTrailer) appendTo(block []byte) []byte {
	le := binary.LittleEndian
	block = le.AppendUint64(block, uint64(t.at.file))
	block = le.AppendUint64(block, uint64(t.at.offset))
	block = le.AppendUint64(block, uint64(t.at.line))
	block = le.AppendUint64(block, uint64(t.good))
	block = le.AppendUint64(block, uint64(t.skipped))
	return le.AppendUint64(block, xxh3.Hash(block))
}

func decodeTrailer(block []byte) (t blockTrailer) {
	le := binary.LittleEndian
	b := block[len(block)-trailerBytes:]
	t.at = place{file: int(le.Uint64(b)), offset: int64(le.Uint64(b[8:])), line: int64(le.Uint64(b[16:]))}
	t.good, t.skipped = int64(le.Uint64(b[24:])), int64(le.Uint64(b[32:]))
	return t
}

// csvCodec decodes csvFormat's records.
type csvCodec struct {
	kind  recordKind
	dense []numberMap
	ids   []idMap
}

// newCSVCodec returns the codec of a recipe, for records of a kind.
func newCSVCodec(r *Recipe, kind recordKind) *csvCodec {
	c := &csvCodec{kind: kind}
	for i := range r.Dense {
		c.dense = append(c.dense, newNumberMap(&r.Dense[i]))
	}
	c.ids = newIDMaps(r)
	return c
}

func (c *csvCodec) decode(b *Batch, at int, records []byte) int {
	le := binary.LittleEndian
	head := c.kind.headBytes()
	size := head + 4*len(c.dense) + 8*len(c.ids)
	for i := 0; len(records) > 0; i++ {
		rec := records[:size]
		records = records[size:]
		label := math.Float32frombits(le.Uint32(rec))
		if label != 0 && label != 1 {
			return i
		}
		b.Labels[at+i] = label
		c.decodeWeight(b, at+i, rec)
		rec = rec[head:]
		dense := b.Dense[(at+i)*len(c.dense):][:len(c.dense)]
		for j := range dense {
			dense[j] = c.dense[j].mapNumber(math.Float32frombits(le.Uint32(rec[4*j:])))
		}
		rec = rec[4*len(c.dense):]
		ids := b.IDs[(at+i)*len(c.ids):][:len(c.ids)]
		for j := range ids {
			ids[j] = c.ids[j].mapHash(le.Uint64(rec[8*j:]))
		}
	}
	return -1
}

// decodeWeight sets the weight of sample i, if samples have weights.
func (c *csvCodec) decodeWeight(b *Batch, i int, rec []byte) {
	if c.kind == recordWeighted {
		b.SampleWeights[i] = math.Float32frombits(binary.LittleEndian.Uint32(rec[4:]))
	}
}

// rawCodec decodes csvFormat's records as they are: numbers into Batch.Dense, NaN if they are missing, and
// the hashes of categories into Batch.hashes.
type rawCodec struct {
	kind              recordKind
	dense, categories int
}

func (c *rawCodec) decode(b *Batch, at int, records []byte) int {
	le := binary.LittleEndian
	head := c.kind.headBytes()
	size := head + 4*c.dense + 8*c.categories
	b.hashes = grown(b.hashes, len(b.IDs))
	for i := at; len(records) > 0; i++ {
		rec := records[:size]
		records = records[size:]
		b.Labels[i] = math.Float32frombits(le.Uint32(rec))
		rec = rec[head:]
		for j := range c.dense {
			b.Dense[i*c.dense+j] = math.Float32frombits(le.Uint32(rec[4*j:]))
		}
		rec = rec[4*c.dense:]
		for j := range c.categories {
			b.hashes[i*c.categories+j] = le.Uint64(rec[8*j:])
		}
	}
	return -1
}

// readRecordHeader opens a record file and reads its header.
func readRecordHeader(e env.Env, name string) (f *os.File, size int64, h recordHeader, err error) {
	if f, size, err = openFile(e, name); err != nil {
		return nil, 0, h, err
	}
	if err := checkBinary(e, FormatRecord, f); err != nil {
		f.Close()
		return nil, 0, h, err
	}
	b := make([]byte, recordHeaderBytes)
	err = e.Do("read "+name, func() error {
		n, err := f.ReadAt(b, 0)
		b = b[:n]
		if err == io.EOF {
			return nil
		}
		return err
	})
	if err == nil {
		h, err = decodeRecordHeader(name, b)
	}
	if err != nil {
		f.Close()
		return nil, 0, h, err
	}
	return f, size, h, nil
}

// noTexts is the error of a record file whose ids have no texts.
func noTexts(name string) error {
	return fileErr(name, "its samples have ids and no texts, so that tables cannot be counted; list the rows in model.tables")
}

// openRecords opens complete record files as one Source.
func openRecords(o *Options, names []string) (Source, error) {
	if f, _, h, err := readRecordHeader(o.Env, names[0]); err == nil {
		f.Close()
		if h.bags.mask != nil {
			return openBags(o, names)
		}
	}
	s := &fixed{env: o.Env, schema: o.schema(0)}
	ok := false
	defer func() {
		if !ok {
			s.Close()
		}
	}()
	var kind recordKind
	for i, name := range names {
		f, size, h, err := readRecordHeader(o.Env, name)
		if err != nil {
			return nil, err
		}
		src := sourceFile{file: f, name: name, what: "read " + name, first: s.samples, n: int64(h.samples), layout: h.blockLayout()}
		s.files = append(s.files, src)
		s.samples += src.n
		s.skipped += int64(h.skipped)
		switch {
		case h.samples == 0:
			return nil, fileErr(name, "the record file is not complete; convert its sources again; the conversion resumes where it stopped")
		case size != h.fileBytes():
			return nil, fileErr(name, "the record file has %d bytes, its %d samples take %d; delete it to convert the sources again", size,
				h.samples, h.fileBytes())
		case h.bags.mask != nil:
			return nil, fileErr(name, "its samples are not of the same kind as those of %s", names[0])
		case int(h.tables) != s.schema.Features():
			return nil, fileErr(name, "its samples have %d categorical features, but model.tables names %d tables", h.tables, s.schema.Features())
		case i > 0 && (h.kind != kind || int(h.dense) != s.schema.Dense):
			return nil, fileErr(name, "its samples are not of the same kind as those of %s", names[0])
		}
		s.files[i].checked = make([]atomic.Uint32, h.samples/uint64(h.blockRecords)/32+1)
		kind, s.schema.Dense = h.kind, int(h.dense)
	}
	s.schema.SampleWeights = kind == recordWeighted
	if o.raw {
		if kind == recordCriteo || kind == recordScaled {
			return nil, noTexts(names[0])
		}
		s.codec = &rawCodec{kind: kind, dense: s.schema.Dense, categories: s.schema.Features()}
		ok = true
		return s, nil
	}
	if kind == recordCriteo {
		if err := s.schema.checkLimits(); err != nil {
			return nil, err
		}
		s.codec = &criteoCodec{mod: moduli(s.schema.FeatureRows())}
	} else {
		r, err := o.recipeOf(kind, s.schema.Dense)
		if err != nil {
			return nil, err
		}
		s.schema.Tables = r.Schema().Tables
		s.codec = newCSVCodec(r, kind)
	}
	if err := s.schema.checkLimits(); err != nil {
		return nil, err
	}
	ok = true
	return s, nil
}
