package data

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// layout is where the records of a file are.
type layout struct {
	headerBytes  int64
	recordBytes  int64
	blockRecords int64
	trailerBytes int64 // after each block
}

// recordOffset is that of record i from the file's start.
func (l *layout) recordOffset(i int64) int64 {
	return l.headerBytes + i*l.recordBytes + i/l.blockRecords*l.trailerBytes
}

// blockBytes is the size of a block of n records with its trailer.
func (l *layout) blockBytes(n int64) int64 { return n*l.recordBytes + l.trailerBytes }

// checkBlock compares a block's checksum, the last 8 bytes of it.
func (l *layout) checkBlock(file string, block int64, b []byte) error {
	body := b[:len(b)-8]
	if binary.LittleEndian.Uint64(b[len(body):]) != xxh3.Hash(body) {
		return fileErr(file, "block %d (from sample %d) is damaged; delete the file to convert the sources again",
			block, block*l.blockRecords)
	}
	return nil
}

// recordKind is the layout of a record.
type recordKind uint32

const (
	recordCriteo   recordKind = iota // criteo-bin's
	recordCSV                        // csvFormat's
	recordWeighted                   // csvFormat's, with weights of the samples
	recordScaled                     // csvFormat's, of numbers as they enter the model, and of ids in place of hashes
)

// headBytes is the size of the fields before the numbers, in csvFormat's records.
func (k recordKind) headBytes() int {
	if k == recordWeighted {
		return 8
	}
	return 4
}
