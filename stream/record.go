package stream

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/zeebo/xxh3"
)

// errTorn is the error of a record that is not complete.
var errTorn = errors.New("the record is incomplete or damaged")

// readRecord reads a record, and returns its length without the head.
func readRecord(r io.Reader) (x Record, n int64, err error) {
	var head [recordHead]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTorn
		}
		return x, 0, err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > maxRecord {
		return x, maxRecord, errTorn
	}
	x.Time, x.Bytes = int64(binary.LittleEndian.Uint64(head[8:])), make([]byte, length)
	if _, err = io.ReadFull(r, x.Bytes); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errTorn
	}
	if err == nil && binary.LittleEndian.Uint64(head[16:]) != xxh3.HashSeed(x.Bytes, xxh3.Hash(head[:16])) {
		err = errTorn
	}
	return x, int64(length), err
}
