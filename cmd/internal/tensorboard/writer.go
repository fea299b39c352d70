package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Writer appends scalars to an event file. A nil Writer writes nothing.
type Writer struct {
	f   *os.File
	now func() time.Time
	err error // the first one: a broken record hides those after it
}

// Create creates the folder, and a new event file in it. name distinguishes the processes that
// write to the folder.
func Create(dir, name string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	now := time.Now()
	for n := now.UnixNano(); ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%09d.%s", n/1e9, n%1e9, name))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w := &Writer{f: f, now: time.Now}
		if err := w.writeRecord(text(w.appendHead(nil, 0), 3, "brain.Event:2")); err != nil {
			_ = f.Close()
			return nil, err
		}
		return w, nil
	}
}

// Scalar writes the value of a tag after a step.
func (w *Writer) Scalar(step int64, tag string, value float64) error {
	if w == nil || w.err != nil {
		return nil
	}
	v := text(nil, 1, tag)
	v = append(v, 2<<3|fixed32)
	v = binary.LittleEndian.AppendUint32(v, math.Float32bits(float32(value)))
	return w.writeRecord(text(w.appendHead(nil, step), 5, string(text(nil, 1, string(v)))))
}

// Close closes the file.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	return w.f.Close()
}

// The types of fields in a protocol buffer.
const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
	fixed32 = 5
)

// appendHead appends the fields that each event has.
func (w *Writer) appendHead(b []byte, step int64) []byte {
	b = append(b, 1<<3|fixed64)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(w.now().UnixNano())/1e9))
	if step == 0 {
		return b // proto3 omits zeros
	}
	b = append(b, 2<<3|varint)
	return binary.AppendUvarint(b, uint64(step))
}

// text appends a length-delimited field: a string or a message.
func text(b []byte, field byte, s string) []byte {
	b = append(b, field<<3|bytes)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns the checksum of p in the masked form of records. A plain checksum of data that
// contains checksums would be weak.
func masked(p []byte) uint32 {
	sum := crc32.Checksum(p, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// writeRecord writes an event with its length and checksums.
func (w *Writer) writeRecord(data []byte) error {
	r := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	r = binary.LittleEndian.AppendUint32(r, masked(r))
	r = append(r, data...)
	r = binary.LittleEndian.AppendUint32(r, masked(data))
	_, w.err = w.f.Write(r)
	return w.err
}
