package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// parquetPadding is the number of bytes behind those of a page that may be read: see runs.
const parquetPadding = 32

// parquetPage is a page, without its compression.
type parquetPage struct {
	kind     format.PageType
	encoding format.Encoding // of the values
	n        int             // values or levels, as the file names them
	// repeated and defined are the levels, values the rest. They have parquetPadding more bytes in their capacity.
	repeated, defined, values []byte
}

// parquetPages reads the pages of a column in a row group, one after the other. The memory of a page is reused for the next one.
type parquetPages struct {
	in       io.ReaderAt
	at, end  int64 // of the rest of the column in the file
	codec    format.CompressionCodec
	leaf     *parquet.Column
	unpacker *unpacker
	size     int // of the last page, with its header
	memory   []byte
}

// unpacker is the memory of a goroutine that decompresses pages.
type unpacker struct {
	raw  []byte
	zstd *zstd.Decoder
}

// newParquetPages returns the pages of a column.
func newParquetPages(in io.ReaderAt, size int64, leaf *parquet.Column, m *format.ColumnMetaData, u *unpacker) (*parquetPages, error) {
	p := &parquetPages{in: in, at: m.DataPageOffset, codec: m.Codec, leaf: leaf, unpacker: u, size: 4 << 10}
	if m.DictionaryPageOffset != 0 {
		p.at = m.DictionaryPageOffset
	}
	if p.at < 0 || p.at > size || m.TotalCompressedSize < 0 || m.TotalCompressedSize > size-p.at {
		return nil, fmt.Errorf("column %q has %d bytes at byte %d", leaf.Name(), m.TotalCompressedSize, p.at)
	}
	p.end = p.at + m.TotalCompressedSize
	return p, nil
}

// nextPage reads the next page. After the last one the error is io.EOF.
func (p *parquetPages) nextPage() (page parquetPage, err error) {
	if p.at == p.end {
		return page, io.EOF
	}
	h, size, err := p.readHeader()
	if err != nil {
		return page, err
	}
	raw, err := p.readRaw(size, int(h.CompressedPageSize))
	if err != nil {
		return page, err
	}
	if h.CRC != 0 && crc32.ChecksumIEEE(raw) != uint32(h.CRC) {
		return page, fmt.Errorf("a page of column %q has another checksum than its header names", p.leaf.Name())
	}
	page.kind = h.Type
	switch v1, v2, words := &h.DataPageHeader, &h.DataPageHeaderV2, &h.DictionaryPageHeader; {
	case h.Type == format.DataPage && v1.Valid:
		page.encoding, page.n = v1.V.Encoding, int(v1.V.NumValues)
		if page.values, err = p.unpackPage(raw, int(h.UncompressedPageSize), 0); err == nil {
			err = p.cutLevels(&page, v1.V.RepetitionLevelEncoding, v1.V.DefinitionLevelEncoding)
		}
	case h.Type == format.DataPageV2 && v2.Valid:
		page.encoding, page.n = v2.V.Encoding, int(v2.V.NumValues)
		err = p.unpackV2(&page, h, raw)
	case h.Type == format.DictionaryPage && words.Valid:
		page.encoding, page.n = words.V.Encoding, int(words.V.NumValues)
		page.values, err = p.unpackPage(raw, int(h.UncompressedPageSize), 0)
	default:
		err = fmt.Errorf("column %q has a page of type %v", p.leaf.Name(), h.Type)
	}
	if err == nil && page.n < 0 {
		err = fmt.Errorf("column %q has a page of %d values", p.leaf.Name(), page.n)
	}
	return page, err
}

// readHeader reads the header of the next page, and as many bytes of the page as the last page had. It returns the header's size.
func (p *parquetPages) readHeader() (h *format.PageHeader, size int, err error) {
	for want := int64(p.size) + 1<<10; ; want *= 4 {
		n := int(min(want, p.end-p.at))
		p.unpacker.raw = grown(p.unpacker.raw, n)
		if n, err = p.in.ReadAt(p.unpacker.raw, p.at); n < len(p.unpacker.raw) {
			return nil, 0, err
		}
		h = new(format.PageHeader)
		r := new(thrift.CompactProtocol).NewReaderFromBytes(p.unpacker.raw)
		err = thrift.NewDecoder(r).Decode(h)
		if err == nil {
			return h, r.BytesRead(), nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) || int64(n) == p.end-p.at {
			return nil, 0, err
		}
	}
}

// readRaw reads the rest of a page, and returns it without its header.
func (p *parquetPages) readRaw(header, size int) ([]byte, error) {
	if size < 0 || int64(size) > p.end-p.at-int64(header) {
		return nil, fmt.Errorf("a page of column %q has %d bytes", p.leaf.Name(), size)
	}
	u := p.unpacker
	p.size = header + size
	if have := len(u.raw); have < p.size {
		all := grown(u.raw, p.size)
		copy(all, u.raw)
		u.raw = all
		if n, err := p.in.ReadAt(u.raw[have:], p.at+int64(have)); n < p.size-have {
			return nil, err
		}
	}
	p.at += int64(p.size)
	return u.raw[header:p.size], nil
}

// cutLevels takes the levels of a page of version 1 from its values.
func (p *parquetPages) cutLevels(page *parquetPage, repeated, defined format.Encoding) (err error) {
	if p.leaf.MaxRepetitionLevel() > 0 {
		if page.repeated, page.values, err = p.cutLevel(page.values, repeated); err != nil {
			return err
		}
	}
	if p.leaf.MaxDefinitionLevel() > 0 {
		page.defined, page.values, err = p.cutLevel(page.values, defined)
	}
	return err
}

// cutLevel takes levels, which begin with their size.
func (p *parquetPages) cutLevel(b []byte, encoding format.Encoding) (levels, rest []byte, err error) {
	if encoding != format.RLE {
		return nil, nil, notRead(fmt.Sprintf("column %q has levels in the encoding %v", p.leaf.Name(), encoding))
	}
	if len(b) < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	size := int64(binary.LittleEndian.Uint32(b))
	if size > int64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return b[4 : 4+size], b[4+size:], nil
}

// unpackV2 unpacks a page of version 2. Its levels are not compressed.
func (p *parquetPages) unpackV2(page *parquetPage, h *format.PageHeader, raw []byte) (err error) {
	v := &h.DataPageHeaderV2.V
	repeated, defined := int(v.RepetitionLevelsByteLength), int(v.DefinitionLevelsByteLength)
	if repeated < 0 || defined < 0 || repeated > len(raw) || defined > len(raw)-repeated || repeated+defined > int(h.UncompressedPageSize) {
		return fmt.Errorf("a page of column %q has %d and %d bytes of levels", p.leaf.Name(), repeated, defined)
	}
	codec := p.codec
	if v.IsCompressed.Valid && !v.IsCompressed.V {
		p.codec = format.Uncompressed
	}
	all, err := p.unpackPage(raw, int(h.UncompressedPageSize), repeated+defined)
	p.codec = codec
	if err != nil {
		return err
	}
	if p.leaf.MaxRepetitionLevel() > 0 {
		page.repeated = all[:repeated]
	}
	if p.leaf.MaxDefinitionLevel() > 0 {
		page.defined = all[repeated : repeated+defined]
	}
	page.values = all[repeated+defined:]
	return nil
}

// unpackPage returns the page of raw: the first bytes as they are, and the rest decompressed. It has size bytes, and
// parquetPadding more in its capacity.
func (p *parquetPages) unpackPage(raw []byte, size, first int) (page []byte, err error) {
	rest := raw[first:]
	want := size - first
	if want < 0 {
		return nil, fmt.Errorf("a page of column %q has %d bytes", p.leaf.Name(), size)
	}
	// Memory grows with what is decompressed, not with a size that a damaged file names.
	if room := first + min(want, 64*len(rest)+1<<10) + parquetPadding; cap(p.memory) < room {
		p.memory = make([]byte, room)
	}
	copy(p.memory[:first], raw)
	to := p.memory[first:first:cap(p.memory)]
	switch {
	case want == 0 && len(rest) == 0:
	case p.codec == format.Uncompressed:
		to = append(to, rest...)
	case p.codec == format.Snappy:
		to, err = unpackSnappy(to, rest, want)
	case p.codec == format.Zstd:
		to, err = p.unpacker.unpackZstd(to, rest, want)
	default:
		to, err = parquet.LookupCompressionCodec(p.codec).Decode(to, rest)
	}
	if err != nil {
		return nil, err
	}
	if len(to) != want {
		return nil, fmt.Errorf("a page of column %q has %d bytes, not %d", p.leaf.Name(), first+len(to), size)
	}
	return p.keepPage(to, first), nil
}

// keepPage makes p.memory the memory of a page, of which it has the first bytes already.
func (p *parquetPages) keepPage(to []byte, first int) []byte {
	size := first + len(to)
	if size+parquetPadding > cap(p.memory) || len(to) > 0 && &to[0] != &p.memory[:first+1][first] {
		memory := make([]byte, size+parquetPadding)
		copy(memory, p.memory[:first])
		copy(memory[first:], to)
		p.memory = memory
	}
	return p.memory[:size]
}

// unpackSnappy decompresses b into the capacity of to, which has no bytes yet.
func unpackSnappy(to, b []byte, want int) ([]byte, error) {
	if n, err := snappy.DecodedLen(b); err != nil || n != want || n > cap(to) {
		return nil, fmt.Errorf("a page that is compressed to %d bytes has %d bytes", len(b), want)
	}
	return snappy.Decode(to[:want], b)
}

// unpackZstd decompresses b into to, which has no bytes yet.
func (u *unpacker) unpackZstd(to, b []byte, want int) (page []byte, err error) {
	if u.zstd == nil {
		u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
	}
	if want <= cap(to) {
		return u.zstd.DecodeAll(b, to)
	}
	// The memory of the rest grows as it comes.
	if err := u.zstd.Reset(bytes.NewReader(b)); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(to)
	_, err = io.Copy(out, io.LimitReader(u.zstd, int64(want)+1))
	return out.Bytes(), err
}

// closeDecoder frees the memory of a decoder.
func (u *unpacker) closeDecoder() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}
