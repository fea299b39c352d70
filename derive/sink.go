package derive

import (
	"errors"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// batch is records on their way to the topic.
type batch struct {
	block   []byte // the memory of the next records
	records []stream.Keyed
	marker  *Marker // the last record; nil: another batch follows before it
	lost    bool    // some of it may be missing in the topic
	foreign bool    // other records are between them
}

const (
	blockBytes  = 1 << 20
	recordBytes = 64 // of a record, beside key and value
)

// makeRoom returns memory for a record of at most some bytes, to append to.
func (b *batch) makeRoom(bytes int) []byte {
	if cap(b.block)-len(b.block) < bytes {
		b.block = make([]byte, 0, max(blockBytes, bytes))
	}
	return b.block[len(b.block):]
}

// addRecord adds a record that was written into the memory of makeRoom: the key, and the value.
func (b *batch) addRecord(text []byte, key int) {
	b.block = b.block[:len(b.block)+len(text)]
	b.records = append(b.records, stream.Keyed{Key: text[:key:key], Value: text[key:len(text):len(text)]})
}

// sink sends batches, one at a time, in a goroutine of its own.
//
// Invariants:
//   - Only the goroutine uses the partition.
//   - A batch that was handed over is the goroutine's until takeSent returns it.
type sink struct {
	env   env.Env
	topic stream.Topic

	monitor env.Monitor
	part    stream.KeyedPartition
	next    int64  // the offset of the next record, unless another program writes to the topic
	work    *batch // nil: the goroutine is free
	sent    *batch // nil: no batch has ended since the last call of takeSent
	since   time.Duration
	err     error // why the topic takes nothing; nil: it does
	closed  bool
	ended   bool
}

func startSink(e env.Env, topic stream.Topic, part stream.KeyedPartition, next int64) *sink {
	s := &sink{env: e, topic: topic, part: part, next: next, monitor: e.Monitor("rows")}
	e.Go("rows", s.sendBatches)
	return s
}

// handOver hands a batch over. The goroutine is free.
func (s *sink) handOver(b *batch) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.work, s.since = b, s.env.Now()
	s.monitor.Wake()
}

// takeSent returns the batch that has ended, nil if there is none.
func (s *sink) takeSent() (b *batch) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	b, s.sent = s.sent, nil
	return b
}

// isFree reports whether the goroutine has no batch, and no batch that takeSent did not return.
func (s *sink) isFree() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	return s.work == nil && s.sent == nil
}

// stalledFor returns for how long the topic has taken nothing, and why. Zero: it takes records.
func (s *sink) stalledFor() (time.Duration, error) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.work == nil {
		return 0, nil
	}
	return s.env.Now() - s.since, s.err
}

// closeSink ends the goroutine. A batch that is not sent yet is dropped.
func (s *sink) closeSink() {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.closed = true
	s.monitor.Wake()
	for !s.ended {
		s.monitor.Wait()
	}
}

// isClosed reports whether the sink is closed.
func (s *sink) isClosed() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	return s.closed
}

// sendBatches is the goroutine.
func (s *sink) sendBatches() {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	for !s.closed {
		b := s.work
		if b == nil {
			s.monitor.Wait()
			continue
		}
		s.monitor.Unlock()
		b.lost = s.sendBatch(b)
		if !b.lost {
			b.foreign = s.isForeign(len(b.records))
		}
		s.monitor.Lock()
		s.sent, s.work, s.err = b, nil, nil
	}
	if s.part != nil {
		s.part.Close()
	}
	s.ended = true
	s.monitor.Wake()
}

const (
	groupRecords = 1 << 15 // between two calls of Sync
	groupBytes   = 16 << 20
	retryEvery   = 200 * time.Millisecond
	reopenEvery  = 5 * time.Second
)

// sendBatch sends a batch, however long it takes. It reports whether the partition ended meanwhile: then it is another one now.
func (s *sink) sendBatch(b *batch) (lost bool) {
	for rest := b.records; len(rest) > 0 && !s.isClosed(); {
		n := groupOf(rest)
		err := s.sendGroup(rest[:n])
		if err == nil {
			rest = rest[n:]
			continue
		}
		if errors.As(err, new(*stream.Final)) {
			s.reopenPartition()
			return true
		}
	}
	return false
}

// isForeign reports whether another program wrote records since the last batch.
func (s *sink) isForeign(records int) bool {
	s.next += int64(records)
	_, next, err := s.part.Bounds()
	if err != nil || next == s.next || s.isClosed() {
		return false // an error: the next batch finds out
	}
	s.next = next
	return true
}

// groupOf is how many records are sent together.
func groupOf(list []stream.Keyed) (n int) {
	for bytes := 0; n < min(len(list), groupRecords) && bytes < groupBytes; n++ {
		bytes += len(list[n].Key) + len(list[n].Value)
	}
	return n
}

// sendGroup sends records until they are acknowledged, or the sink is closed.
func (s *sink) sendGroup(list []stream.Keyed) error {
	for {
		n, err := s.part.AppendKeyed(list)
		if list = list[n:]; err == nil {
			err = s.part.Sync()
		}
		s.note(err)
		if err == nil || errors.As(err, new(*stream.Final)) || s.isClosed() {
			return err
		}
		s.env.Sleep(retryEvery)
	}
}

// note notes whether the topic takes records.
func (s *sink) note(err error) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.err = err; err == nil {
		s.since = s.env.Now()
	}
}

// reopenPartition opens the partition again, once the topic lets it.
func (s *sink) reopenPartition() {
	s.part.Close()
	s.part = nil
	for until := s.env.Now(); !s.isClosed(); {
		if s.env.Now() < until {
			s.env.Sleep(retryEvery)
			continue
		}
		part, t, err := openTail(s.env, s.topic)
		if err == nil {
			s.part, s.next = part, t.next
			return
		}
		s.note(err)
		until = s.env.Now() + reopenEvery
	}
}
