package stream

import (
	"encoding/binary"
	"errors"
	"time"
)

// Keyed is a record with a key. Of the records with one key a topic needs to keep the newest only.
type Keyed struct{ Key, Value []byte }

// KeyedPartition is a Partition whose records have keys. Read sets Record.Key; it is nil for a record of another kind.
type KeyedPartition interface {
	Partition
	// AppendKeyed appends records, as Append does. It returns how many it took, after an error too.
	AppendKeyed(records []Keyed) (int, error)
}

// CreateKeyed makes a topic for records with keys. Of the records with one key it may drop all but the newest.
func CreateKeyed(t Topic, partitions int) error {
	if c, ok := t.(interface{ CreateCompacted(partitions int) error }); ok {
		return c.CreateCompacted(partitions)
	}
	return t.Create(partitions)
}

// OpenKeyed opens a partition for records with keys. In a topic that has none, a record begins with its key.
func OpenKeyed(t Topic, partition int) (KeyedPartition, error) {
	p, err := t.Open(partition)
	if err != nil {
		return nil, err
	}
	if k, ok := p.(KeyedPartition); ok {
		return k, nil
	}
	return &packedPartition{p}, nil
}

// packedMark begins a record with a key: the mark, the length of the key (uint32, little-endian), the key and the value.
const packedMark = "ecrK"

// packedPartition keeps keys in the bytes of records.
type packedPartition struct{ Partition }

// AppendKeyed implements KeyedPartition.
func (p *packedPartition) AppendKeyed(records []Keyed) (int, error) {
	var b []byte
	for i, r := range records {
		b = append(binary.LittleEndian.AppendUint32(append(b[:0], packedMark...), uint32(len(r.Key))), r.Key...)
		b = append(b, r.Value...)
		if err := p.Append([][]byte{b}); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

// Read implements Partition.
func (p *packedPartition) Read(from int64, bytes int, wait time.Duration) ([]Record, error) {
	list, err := p.Partition.Read(from, bytes, wait)
	for i := range list {
		if k, err := unpack(list[i].Bytes); err == nil {
			list[i].Key, list[i].Bytes = k.Key, k.Value
		}
	}
	return list, err
}

// unpack parses a record of a packedPartition.
func unpack(b []byte) (k Keyed, err error) {
	const head = len(packedMark) + 4
	if len(b) < head || string(b[:len(packedMark)]) != packedMark {
		return k, errors.New("the record has no key")
	}
	n := uint64(binary.LittleEndian.Uint32(b[len(packedMark):]))
	if n > uint64(len(b)-head) {
		return k, errors.New("the record ends within its key")
	}
	return Keyed{Key: b[head : head+int(n) : head+int(n)], Value: b[head+int(n):]}, nil
}
