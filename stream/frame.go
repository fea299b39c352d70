package stream

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/lineage"
)

// MaxPayload is the most bytes of a frame behind its header: half of what a Kafka broker takes by default.
const MaxPayload = 512 << 10

// kind is the content of a frame.
type kind uint8

const (
	kindRows  kind = 1 + iota // some rows of an epoch
	kindExtra                 // some of the trainer's bytes
	kindEnd                   // the end of an epoch
	kindAbout                 // the description of the run, before the first epoch of a writer
	kindGone                  // reserved: rows that are deleted
	kindPlace                 // of a base: the place in the topic from which its readers go on
)

// isAbsolute is the flag of frames of an absolute epoch.
const isAbsolute = 1

// header describes a frame.
type header struct {
	kind     kind
	absolute bool
	lineage  lineage.ID
	rank     uint32 // the partition
	ranks    uint32
	session  uint64 // of the writer, drawn: frames of an epoch have the same one
	from, to int64  // steps of the epoch
	number   uint32 // of the frame in the epoch
	layout   uint32 // of rows on ranks: with another one, slots are those of other rows; 0: unknown
}

// The bytes of a frame: magic, version, kind, flags, the other fields of header, the length of the payload, a sum of all other
// bytes, the payload.
const (
	magic       = "ECRS"
	version     = 1
	sumAt       = 72
	headerBytes = 80
)

// appendHeader appends the header of a frame, which sealFrame completes once the payload follows it.
func appendHeader(b []byte, h header) []byte {
	var f [headerBytes]byte
	copy(f[:], magic)
	binary.LittleEndian.PutUint16(f[4:], version)
	f[6] = byte(h.kind)
	if h.absolute {
		f[7] = isAbsolute
	}
	copy(f[8:], h.lineage[:])
	binary.LittleEndian.PutUint32(f[24:], h.rank)
	binary.LittleEndian.PutUint32(f[28:], h.ranks)
	binary.LittleEndian.PutUint32(f[32:], h.number)
	binary.LittleEndian.PutUint32(f[36:], h.layout)
	binary.LittleEndian.PutUint64(f[40:], h.session)
	binary.LittleEndian.PutUint64(f[48:], uint64(h.from))
	binary.LittleEndian.PutUint64(f[56:], uint64(h.to))
	return append(b, f[:]...)
}

// sealFrame sets the length and the sum of a frame.
func sealFrame(f []byte) {
	binary.LittleEndian.PutUint64(f[64:], uint64(len(f)-headerBytes))
	binary.LittleEndian.PutUint64(f[sumAt:], sumOf(f))
}

// sumOf is the sum of a frame, without its own bytes.
func sumOf(f []byte) uint64 { return xxh3.HashSeed(f[headerBytes:], xxh3.Hash(f[:sumAt])) }

// errForeign is the error of a record that is no frame of this package.
var errForeign = errors.New("the record is not of ecrec")

// parseFrame returns the header and the payload of a record.
func parseFrame(f []byte) (h header, payload []byte, err error) {
	if len(f) < headerBytes || string(f[:4]) != magic {
		return h, nil, errForeign
	}
	if v := binary.LittleEndian.Uint16(f[4:]); v != version {
		return h, nil, fmt.Errorf("the frame has version %d, this program reads %d: use a later ecrec", v, version)
	}
	if n := binary.LittleEndian.Uint64(f[64:]); n != uint64(len(f)-headerBytes) || binary.LittleEndian.Uint64(f[sumAt:]) != sumOf(f) {
		return h, nil, errors.New("the frame is damaged: its sum is wrong")
	}
	h = header{kind: kind(f[6]), absolute: f[7]&isAbsolute != 0, lineage: lineage.ID(f[8:24]), rank: binary.LittleEndian.Uint32(f[24:]),
		ranks: binary.LittleEndian.Uint32(f[28:]), number: binary.LittleEndian.Uint32(f[32:]), session: binary.LittleEndian.Uint64(f[40:]),
		layout: binary.LittleEndian.Uint32(f[36:]), from: int64(binary.LittleEndian.Uint64(f[48:])), to: int64(binary.LittleEndian.Uint64(f[56:]))}
	switch {
	case h.kind < kindRows || h.kind > kindAbout && h.kind != kindPlace:
		return h, nil, fmt.Errorf("the frame has kind %d, which this program does not know: use a later ecrec", h.kind)
	case f[7]&^isAbsolute != 0, h.rank >= h.ranks, h.from > h.to, h.from < 0:
		return h, nil, errors.New("the frame has a header that no writer makes")
	}
	return h, f[headerBytes:], nil
}

// appendRows appends some rows to a payload: how many they are, the distance of each slot from the one before, and the rows.
func appendRows(b []byte, slots []int32, rows []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(slots)))
	last := int32(-1)
	for _, slot := range slots {
		b = binary.AppendUvarint(b, uint64(slot-last))
		last = slot
	}
	return append(b, rows...)
}

// parseRows appends the rows of a payload.
func parseRows(b []byte, slots []int32, rows []byte) ([]int32, []byte, error) {
	bad := errors.New("the frame has rows that no writer makes")
	n, at := binary.Uvarint(b)
	if at <= 0 || n == 0 || n > uint64(len(b)) {
		return slots, rows, bad
	}
	last := int64(-1)
	for range n {
		d, more := binary.Uvarint(b[at:])
		if more <= 0 || d == 0 || d > 1<<31 || last+int64(d) >= 1<<31 {
			return slots, rows, bad
		}
		at += more
		last += int64(d)
		slots = append(slots, int32(last))
	}
	if uint64(len(b)-at)%n != 0 {
		return slots, rows, bad
	}
	return slots, append(rows, b[at:]...), nil
}
