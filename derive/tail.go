package derive

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// tail is the end of a topic.
type tail struct {
	marker *Marker             // the last one; nil: there is none
	rows   map[string]struct{} // the keys of the rows behind it
	next   int64               // the offset behind the last record
	void   bool                // a Header is behind it, or too many rows: all rows must be sent
}

const (
	mostLeft  = 1 << 20 // rows behind the last marker that are listed
	readBytes = 4 << 20
	readFor   = 15 * time.Second // without any record
)

// openTail opens the topic, which is made if it does not exist, and reads its end.
func openTail(e env.Env, topic stream.Topic) (p stream.KeyedPartition, t *tail, err error) {
	n, err := topic.Partitions()
	if err == nil && n == 0 {
		n, err = 1, stream.CreateKeyed(topic, 1)
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("the topic has %d partitions; rows need a topic of their own, with one", n)
	}
	if err != nil {
		return nil, nil, err
	}
	if p, err = stream.OpenKeyed(topic, 0); err != nil {
		return nil, nil, err
	}
	if t, err = readTail(e, p); err != nil {
		p.Close()
		return nil, nil, err
	}
	return p, t, nil
}

// readTail finds the last marker.
func readTail(e env.Env, p stream.KeyedPartition) (*tail, error) {
	first, next, err := p.Bounds()
	if err != nil || first == next {
		return &tail{void: true, next: next}, err
	}
	for back := int64(64); ; back *= 16 {
		from := max(first, next-back)
		t, err := readFrom(e, p, from, next)
		if err != nil || t.marker != nil || from == first {
			return t, err
		}
	}
}

// readFrom reads the records from one offset up to another.
func readFrom(e env.Env, p stream.KeyedPartition, from, next int64) (*tail, error) {
	t := &tail{rows: map[string]struct{}{}, next: next}
	began := e.Now()
	for from < next {
		records, err := p.Read(from, readBytes, time.Second)
		if err != nil {
			return nil, err
		}
		if len(records) == 0 && e.Now()-began > readFor {
			return nil, fmt.Errorf("the topic has offsets up to %d, and returns nothing from %d on within %v", next-1, from, readFor)
		}
		for _, r := range records {
			if err := t.takeRecord(r); err != nil {
				return nil, fmt.Errorf("the record at offset %d is none of rows: %w; use another topic", r.Offset, err)
			}
			from, began = r.Offset+1, e.Now()
		}
	}
	t.void = t.void || t.marker == nil
	return t, nil
}

// takeRecord takes the next record.
func (t *tail) takeRecord(r stream.Record) (err error) {
	switch key := string(r.Key); key {
	case keyBegin:
		t.void = true
	case keyMarker:
		if t.marker, err = parseMarker(r.Bytes); err != nil {
			return err
		}
		clear(t.rows)
		t.void = false
	default:
		if _, _, err := parseKey(r.Key); err != nil {
			return err
		}
		if len(t.rows) >= mostLeft {
			t.void = true
			return nil
		}
		t.rows[key] = struct{}{}
	}
	return nil
}
