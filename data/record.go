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

// A record file holds what was parsed from text, for any tables: raw numbers and
// whole hashes. All of it is little-endian.
//
//	header   recordHeaderBytes, see recordHeader
//	block    blockRecords records (the last block may have fewer)
//	         trailer: see blockTrailer, ending with a checksum of the block
//	...
//
// While it is being made it is called NAME.part and its header says 0 samples;
// the trailers say where in the sources each block ended, so that a conversion
// goes on behind the last whole block. It gets its name when it is complete.
const (
	recordMagic       = "ECRECREC"
	recordVersion     = 1
	recordHeaderBytes = 4096
	trailerBytes      = 48
	maxBlockBytes     = 1 << 20
	maxBlockRecords   = shuffleBlock
)

// recordKind is the layout of a record.
type recordKind uint32

const (
	recordCriteo recordKind = iota // criteo-bin's
	recordCSV                      // csvFormat's
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

func (h *recordHeader) wantRecordBytes() uint32 {
	if h.kind == recordCriteo {
		return criteoBytes
	}
	return 4 + 4*h.dense + 8*h.tables
}

func (h *recordHeader) layout() layout {
	return layout{headerBytes: recordHeaderBytes, recordBytes: int64(h.recordBytes),
		blockRecords: int64(h.blockRecords), trailerBytes: trailerBytes}
}

// fileBytes is the size of the complete file.
func (h *recordHeader) fileBytes() int64 {
	blocks := (h.samples + uint64(h.blockRecords) - 1) / uint64(h.blockRecords)
	return recordHeaderBytes + int64(h.samples)*int64(h.recordBytes) + int64(blocks)*trailerBytes
}

func (h *recordHeader) encode() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, recordHeaderBytes), recordMagic...)
	b = le.AppendUint32(b, recordVersion)
	b = le.AppendUint32(b, uint32(h.kind))
	b = le.AppendUint32(b, h.dense)
	b = le.AppendUint32(b, h.tables)
	b = le.AppendUint32(b, h.recordBytes)
	b = le.AppendUint32(b, h.blockRecords)
	b = le.AppendUint64(b, h.samples)
	b = le.AppendUint64(b, h.skipped)
	b = append(b, h.source[:]...)
	b = b[:recordHeaderBytes]
	le.PutUint64(b[recordHeaderBytes-8:], xxh3.Hash(b[:recordHeaderBytes-8]))
	return b
}

func decodeRecordHeader(name string, b []byte) (h recordHeader, err error) {
	le := binary.LittleEndian
	if len(b) < len(recordMagic) || string(b[:len(recordMagic)]) != recordMagic {
		return h, fileErr(name, "not a record file")
	}
	if len(b) < recordHeaderBytes {
		return h, fileErr(name, "the record file is cut short within its header; delete it and it will be made anew")
	}
	if v := le.Uint32(b[8:]); v != recordVersion {
		return h, fileErr(name, "the record file has version %d, this ecrec reads version %d; delete it and it will be made anew", v, recordVersion)
	}
	if le.Uint64(b[recordHeaderBytes-8:]) != xxh3.Hash(b[:recordHeaderBytes-8]) {
		return h, fileErr(name, "the record file's header is damaged; delete it and it will be made anew")
	}
	h.kind = recordKind(le.Uint32(b[12:]))
	h.dense, h.tables = le.Uint32(b[16:]), le.Uint32(b[20:])
	h.recordBytes, h.blockRecords = le.Uint32(b[24:]), le.Uint32(b[28:])
	h.samples, h.skipped = le.Uint64(b[32:]), le.Uint64(b[40:])
	copy(h.source[:], b[48:64])
	if h.kind > recordCSV || h.dense > maxDense || h.tables > maxTables || h.recordBytes != h.wantRecordBytes() ||
		h.blockRecords < 1 || h.blockRecords > maxBlockRecords || h.samples > math.MaxInt64/(2*uint64(h.recordBytes)+2*trailerBytes) ||
		h.kind == recordCriteo && (h.dense != criteoDense || h.tables != criteoTables) {
		return h, fileErr(name, "the record file's header makes no sense; delete it and it will be made anew")
	}
	return h, nil
}

// blockTrailer says where in the sources a block ended: behind the good-th
// well-formed line from the place on.
type blockTrailer struct {
	at      place
	good    int64 // lines from at on that are in this block or earlier ones
	skipped int64 // malformed lines before at
}

func (t *blockTrailer) append(block []byte) []byte {
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
	dense int
	mod   []modulo
}

func (c *csvCodec) decode(b *Batch, at int, records []byte) int {
	le := binary.LittleEndian
	size := 4 + 4*c.dense + 8*len(c.mod)
	for i := 0; len(records) > 0; i++ {
		rec := records[:size]
		records = records[size:]
		label := math.Float32frombits(le.Uint32(rec))
		if label != 0 && label != 1 {
			return i
		}
		b.Labels[at+i] = label
		rec = rec[4:]
		for j := range c.dense {
			b.Dense[(at+i)*c.dense+j] = logFloat(math.Float32frombits(le.Uint32(rec[4*j:])))
		}
		rec = rec[4*c.dense:]
		for j, m := range c.mod {
			b.IDs[(at+i)*len(c.mod)+j] = m.of64(le.Uint64(rec[8*j:]))
		}
	}
	return -1
}

// readRecordHeader opens a record file and reads its header.
func readRecordHeader(e env.Env, name string) (f *os.File, size int64, h recordHeader, err error) {
	if f, size, err = openFile(e, name); err != nil {
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

// openRecords opens complete record files as one Source.
func openRecords(o *Options, names []string) (Source, error) {
	s := &fixed{env: o.Env, schema: Schema{Tables: o.Tables}}
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
		seg := segment{file: f, name: name, what: "read " + name, first: s.samples, n: int64(h.samples), layout: h.layout()}
		s.segments = append(s.segments, seg)
		s.samples += seg.n
		s.skipped += int64(h.skipped)
		switch {
		case h.samples == 0:
			return nil, fileErr(name, "the record file is not complete; convert its sources again, which goes on where it stopped")
		case size != h.fileBytes():
			return nil, fileErr(name, "the record file has %d bytes, its %d samples take %d; delete it and it will be made anew", size, h.samples, h.fileBytes())
		case int(h.tables) != len(o.Tables):
			return nil, fileErr(name, "its samples have %d categorical features, but model.tables names %d tables", h.tables, len(o.Tables))
		case i > 0 && (h.kind != kind || int(h.dense) != s.schema.Dense):
			return nil, fileErr(name, "its samples are not of the same kind as those of %s", names[0])
		}
		s.segments[i].checked = make([]atomic.Uint32, h.samples/uint64(h.blockRecords)/32+1)
		kind, s.schema.Dense = h.kind, int(h.dense)
	}
	if err := s.schema.check(); err != nil {
		return nil, err
	}
	if kind == recordCriteo {
		s.codec = &criteoCodec{mod: moduli(o.Tables)}
	} else {
		s.codec = &csvCodec{dense: s.schema.Dense, mod: moduli(o.Tables)}
	}
	ok = true
	return s, nil
}
