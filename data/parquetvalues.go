package data

import (
	"encoding/binary"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetValues is values of a column, without nulls.
type parquetValues struct {
	parquetType
	kind parquet.Kind
	n    int
	data []byte
	size int // of a value, 0 for booleans and byte arrays
	// Of byte arrays: value i is in data from offsets[i] to gap bytes before offsets[i+1].
	offsets  []uint32
	gap      uint32
	sequence bool   // plain byte arrays, which are found one after the other
	rest     []byte // of a sequence: the values that are not read
	hashed   bool   // a sequence whose values are only hashed: nextHashes in place of nextPlain

	bad    map[int]string // the mistakes in malformed values
	listed []bool         // of a dictionary: the values that are in the set of texts

}

// beginPage makes v the values of a page, at most n, that has no dictionary. Of a sequence there are none yet.
func (v *parquetValues) beginPage(leaf *parquet.Column, e format.Encoding, data []byte, n int) error {
	*v = parquetValues{parquetType: newParquetType(leaf.Type()), kind: leaf.Type().Kind(), data: data, offsets: v.offsets}
	switch v.kind {
	case parquet.Int32, parquet.Float:
		v.size = 4
	case parquet.Int64, parquet.Double:
		v.size = 8
	case parquet.FixedLenByteArray:
		v.size = leaf.Type().Length()
	}
	if e != format.Plain {
		if err := checkDeltas(e, data, n); err != nil {
			return err
		}
		if err := v.decode(leaf, e); err != nil {
			return err
		}
	}
	switch {
	case v.size > 0:
		v.n = len(v.data) / v.size
	case v.kind == parquet.Boolean:
		v.n = 8 * len(v.data)
	case e == format.Plain:
		v.sequence, v.rest = v.kind == parquet.ByteArray, data
	default:
		v.n = max(len(v.offsets)-1, 0)
	}
	return nil
}

// decode decodes values that are neither plain nor in a dictionary.
func (v *parquetValues) decode(leaf *parquet.Column, e format.Encoding) error {
	var offsets []uint32
	if v.kind == parquet.ByteArray {
		offsets = make([]uint32, 0, 1)
	}
	t := leaf.Type()
	values, err := t.Decode(t.NewValues(nil, offsets), v.data, parquet.LookupEncoding(e))
	if err == nil {
		v.data, v.offsets = values.Data()
	}
	return err
}

// nextPlain sets v to the next n values of a sequence.
func (v *parquetValues) nextPlain(n int) error {
	data := v.rest
	if n > len(data)/4 {
		return io.ErrUnexpectedEOF
	}
	v.data, v.n, v.gap = data, n, 4
	v.offsets = grown(v.offsets, n+1)
	at, last := uint64(4), uint64(0)
	for i := range v.offsets[:n] {
		if at > uint64(len(data)) {
			return io.ErrUnexpectedEOF
		}
		v.offsets[i] = uint32(at)
		// A branch and no sum: the next value of the same size does not wait for this size.
		if size := uint64(binary.LittleEndian.Uint32(data[at-4:])); size != last {
			last = size
		}
		at += last + 4
	}
	v.offsets[n] = uint32(at)
	if at -= 4; at > uint64(len(data)) {
		return io.ErrUnexpectedEOF
	}
	v.rest = data[at:]
	return nil
}

// nextHashes sets hashes to those of the next values of a sequence.
func (v *parquetValues) nextHashes(hashes []uint64) error {
	le := binary.LittleEndian
	for len(hashes) > 0 {
		data := v.rest
		if len(data) < 4 {
			return io.ErrUnexpectedEOF
		}
		size := le.Uint32(data)
		if uint64(size) > uint64(len(data)-4) {
			return io.ErrUnexpectedEOF
		}
		if size == 8 {
			if n := hashEights(hashes, data); n > 0 {
				hashes, v.rest = hashes[n:], data[12*n:]
				continue
			}
		}
		hashes[0] = hashText(data[4 : 4+size])
		hashes, v.rest = hashes[1:], data[4+size:]
	}
	return nil
}

// hashEights sets hashes to those of the texts of 8 bytes at the beginning of data, four at a time. It returns their number.
func hashEights(hashes []uint64, data []byte) (n int) {
	le := binary.LittleEndian
	for len(hashes) >= 4 && len(data) >= 48 {
		if le.Uint32(data) != 8 || le.Uint32(data[12:]) != 8 || le.Uint32(data[24:]) != 8 || le.Uint32(data[36:]) != 8 {
			break
		}
		hashes[0] = hashShort(le.Uint32(data[4:]), le.Uint32(data[8:]), 8)
		hashes[1] = hashShort(le.Uint32(data[16:]), le.Uint32(data[20:]), 8)
		hashes[2] = hashShort(le.Uint32(data[28:]), le.Uint32(data[32:]), 8)
		hashes[3] = hashShort(le.Uint32(data[40:]), le.Uint32(data[44:]), 8)
		hashes, data, n = hashes[4:], data[48:], n+4
	}
	return n
}

// blob is value i of byte arrays.
func (v *parquetValues) blob(i int) []byte {
	if v.kind == parquet.FixedLenByteArray {
		return v.data[i*v.size : (i+1)*v.size]
	}
	return v.data[v.offsets[i] : v.offsets[i+1]-v.gap]
}

// boolean is value i of booleans, 0 or 1.
func (v *parquetValues) boolean(i int) byte { return v.data[i/8] >> (i % 8) & 1 }

// bits32 is value i of numbers of 32 bits.
func (v *parquetValues) bits32(i int) uint32 { return binary.LittleEndian.Uint32(v.data[4*i:]) }

// bits64 is value i of numbers of 64 bits.
func (v *parquetValues) bits64(i int) uint64 { return binary.LittleEndian.Uint64(v.data[8*i:]) }

// integer is value i of integers of any width.
func (v *parquetValues) integer(i int) int64 {
	if v.kind == parquet.Int32 {
		return int64(int32(v.bits32(i)))
	}
	return int64(v.bits64(i))
}

// appendPlain appends value i as Parquet's plain encoding has it, without the length of byte arrays; a boolean is a byte.
func appendPlain(dst []byte, v *parquetValues, i int) []byte {
	switch v.kind {
	case parquet.Boolean:
		return append(dst, v.boolean(i))
	case parquet.ByteArray:
		return append(dst, v.blob(i)...)
	}
	return append(dst, v.data[i*v.size:(i+1)*v.size]...)
}

// appendText appends the text of value i.
func appendText(dst []byte, v *parquetValues, i int) []byte {
	var scratch [64]byte
	return append(dst, v.textOf(i, false, scratch[:])...)
}
