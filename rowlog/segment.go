package rowlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Sizes in a segment.
const (
	magic    = 0x47524345 // "ECRG"
	version  = 2
	headSize = 128
	sumSize  = 4 // of a row
)

// kind is the kind of a segment.
type kind uint32

const (
	kindFile  kind = iota + 1 // the first of each file: its extra part lists the files before it
	kindEpoch                 // the rows of an epoch
	kindPart                  // rows of an epoch that ends with a later segment of the same step
	kindCopy                  // rows of earlier segments
	kindCut                   // makes earlier epochs after a step void
	kindDrop                  // its extra part lists files that are removed
)

// segment is the head of a segment, and its place.
type segment struct {
	file uint64
	at   int64 // in the file

	kind    kind
	number  uint64 // of segments before this one, since the log was made
	step    int64  // kindEpoch, kindPart: the last step of the epoch; kindCut: that of the last epoch which stays
	durable int64  // the file was durable up to this offset when this was written
	rows    int64
	extra   int64  // bytes
	slotSum uint64 // of the slots
	exSum   uint64 // of the extra part
	settled int64  // the step of Log.settled when this was written; 0 in logs of older versions of the program

	seed uint64 // of the sums of rows
	live int64  // rows whose newest version is here
}

// layout is the part of heads that all segments of a log share.
type layout struct {
	lineage       [16]byte
	owner, owners int
	rowBytes      int
}

func (l layout) recordSize() int64 { return int64(sumSize + l.rowBytes) }

// headBytes is the length of the head with the slots.
func (s *segment) headBytes() int64 { return roundUp(headSize + 4*s.rows) }

// rowsAt, extraAt and end are offsets in the file.
func (s *segment) rowsAt() int64                 { return s.at + s.headBytes() }
func (s *segment) extraAt(l layout) int64        { return s.rowsAt() + roundUp(s.rows*l.recordSize()) }
func (s *segment) end(l layout) int64            { return s.extraAt(l) + roundUp(s.extra) }
func (s *segment) place(i int64, l layout) int64 { return s.rowsAt() + i*l.recordSize() }

// encode writes the head, without the slots, to the first headSize bytes of b.
func (s *segment) encode(b []byte, l layout) {
	b = b[:headSize]
	clear(b)
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint32(b[4:], version)
	copy(b[8:], l.lineage[:])
	le.PutUint32(b[24:], uint32(l.owner))
	le.PutUint32(b[28:], uint32(l.owners))
	le.PutUint64(b[32:], s.file)
	le.PutUint64(b[40:], uint64(s.at))
	le.PutUint64(b[48:], uint64(s.step))
	le.PutUint64(b[56:], uint64(s.durable))
	le.PutUint64(b[64:], uint64(s.rows))
	le.PutUint64(b[72:], uint64(s.extra))
	le.PutUint32(b[80:], uint32(l.rowBytes))
	le.PutUint32(b[84:], uint32(s.kind))
	le.PutUint64(b[88:], s.slotSum)
	le.PutUint64(b[96:], s.exSum)
	le.PutUint64(b[104:], s.number)
	le.PutUint64(b[112:], uint64(s.settled))
	le.PutUint64(b[headSize-8:], xxh3.Hash(b[:headSize-8]))
}

var errNoHead = errors.New("no head of a segment")

// Foreign is the error of a folder with the log of another run, or of other rows.
type Foreign struct {
	Lineage       [16]byte
	Owner, Owners int
	RowBytes      int
}

func (e *Foreign) Error() string {
	return fmt.Sprintf("the log is of owner %d of %d of the run %x, with rows of %d bytes", e.Owner, e.Owners, e.Lineage[:4], e.RowBytes)
}

// Format is the error of a folder with a log of another format, which another version of the program has written.
type Format struct{ Version uint32 }

func (e *Format) Error() string {
	return fmt.Sprintf("the log has format %d, and this version reads format %d", e.Version, version)
}

// decode reads the head of a segment at an offset of a file of size bytes.
func decode(b []byte, l layout, file uint64, at, size int64) (s segment, err error) {
	b = b[:headSize]
	le := binary.LittleEndian
	if le.Uint32(b) != magic || le.Uint64(b[headSize-8:]) != xxh3.Hash(b[:headSize-8]) {
		return s, errNoHead
	}
	if v := le.Uint32(b[4:]); v != version {
		return s, &Format{v}
	}
	if [16]byte(b[8:24]) != l.lineage || le.Uint32(b[24:]) != uint32(l.owner) || le.Uint32(b[28:]) != uint32(l.owners) ||
		le.Uint32(b[80:]) != uint32(l.rowBytes) {
		return s, &Foreign{[16]byte(b[8:24]), int(le.Uint32(b[24:])), int(le.Uint32(b[28:])), int(le.Uint32(b[80:]))}
	}
	if le.Uint64(b[32:]) != file || le.Uint64(b[40:]) != uint64(at) {
		return s, errNoHead // of another place
	}
	s = segment{file: file, at: at, kind: kind(le.Uint32(b[84:])), number: le.Uint64(b[104:]), step: int64(le.Uint64(b[48:])),
		durable: int64(le.Uint64(b[56:])), rows: int64(le.Uint64(b[64:])), extra: int64(le.Uint64(b[72:])),
		slotSum: le.Uint64(b[88:]), exSum: le.Uint64(b[96:]), settled: int64(le.Uint64(b[112:]))}
	left := size - at
	if s.rows < 0 || s.extra < 0 || s.rows > left/l.recordSize() || s.extra > left || s.end(l) > size {
		return s, errNoHead // the file ends before the segment
	}
	s.seed = s.seedOf(l)
	return s, nil
}

// seedOf begins the sums of the rows of a segment.
func (s *segment) seedOf(l layout) uint64 {
	var b [40]byte
	copy(b[:], l.lineage[:])
	binary.LittleEndian.PutUint64(b[16:], s.file)
	binary.LittleEndian.PutUint64(b[24:], uint64(s.at))
	binary.LittleEndian.PutUint64(b[32:], s.number)
	return xxh3.Hash(b[:])
}

// rowSum is the sum in front of a row of a slot.
func rowSum(seed uint64, slot int32, row []byte) uint32 {
	return uint32(xxh3.HashSeed(row, seed+0x9e3779b97f4a7c15*uint64(slot)))
}

// decodeSlots reads n slots, and checks that they ascend below a limit.
func decodeSlots(b []byte, n int64, limit int64) ([]int32, error) {
	slots := make([]int32, n)
	last := int64(-1)
	for i := range slots {
		slot := int64(binary.LittleEndian.Uint32(b[4*i:]))
		if slot <= last || slot >= limit {
			return nil, fmt.Errorf("slot %d follows slot %d, of %d", slot, last, limit)
		}
		slots[i], last = int32(slot), slot
	}
	return slots, nil
}

// words packs numbers to an extra part.
func words(x ...uint64) []byte {
	b := make([]byte, 8*len(x))
	for i, w := range x {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
	return b
}

func wordsOf(b []byte) []uint64 {
	x := make([]uint64, len(b)/8)
	for i := range x {
		x[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return x
}
