package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// LogOptions describe the log of one rank.
type LogOptions struct {
	Env     env.Env
	Topic   Topic
	Rank    int
	Ranks   int
	Run     func() lineage.Run // the present one, at each CutTo
	Session uint64             // drawn for each process
	// Moved is set if another process has written the rank's rows in this job. Its run need not be known before CutTo then.
	Moved bool
	// Owners are as in About: with others, the slots of the log are those of other rows.
	Owners []int
	// About returns the description of the run, on the first rank. It is nil on the others.
	About func() ([]byte, error)
}

// Log is one rank's log for package store, in a partition of a topic. Steps are those of package store: one more than the last
// step of an epoch, 0 for none. One goroutine at a time uses it.
type Log struct {
	o         LogOptions
	partition Partition
	head      header  // of the next frame
	tail      *header // the end of the newest epoch in the partition when it was opened; nil: there is none
	step      int64   // the newest epoch that was appended
	synced    int64
	about     bool   // the description is sent
	parts     frames // of the epoch that ends with partStep
	partStep  int64
	ended     bool // Append was called for partStep, and failed: further parts begin the epoch again
	broken    error
	batch     batch // of frames that are appended
}

const (
	tailBytes = 1 << 20               // how much of the end of a partition is read at first
	tailWait  = time.Second           // how long a read of it waits for a record
	tailFor   = 15 * time.Second      // how long the reads of it may get no record
	tailPause = 10 * time.Millisecond // after a read that got none
)

// OpenLog opens a rank's log. The topic has as many partitions as there are ranks. It is made if it does not exist. CutTo follows.
func OpenLog(o LogOptions) (l *Log, err error) {
	l = &Log{o: o, head: header{rank: uint32(o.Rank), ranks: uint32(o.Ranks), session: o.Session, layout: layoutOf(o.Owners)}}
	n, err := o.Topic.Partitions()
	if err == nil && n == 0 {
		n, err = o.Ranks, o.Topic.Create(o.Ranks)
	}
	if err == nil && n != o.Ranks {
		err = fmt.Errorf("the topic has %d partitions, the job has %d ranks: use a topic of its own", n, o.Ranks)
	}
	if err != nil {
		return nil, err
	}
	if !o.Moved {
		if err = o.Topic.Keeps(); err != nil {
			return nil, err
		}
	}
	if l.partition, err = o.Topic.Open(o.Rank); err != nil {
		return nil, err
	}
	l.batch.partition = l.partition
	if err = l.readTail(); err != nil {
		l.partition.Close()
		return nil, err
	}
	return l, nil
}

// readTail finds the last epoch of the partition.
func (l *Log) readTail() error {
	end, err := newestEnd(l.o.Env, l.partition)
	l.tail = end
	if f := new(Foreign); errors.As(err, &f) {
		err = &Foreign{l.o.Rank, f.Offset, fmt.Errorf("%w: the topic is used for something else, use another one", f.Err)}
	}
	return err
}

// newestEnd finds the end of the newest epoch of a partition, nil if there is none.
func newestEnd(e env.Env, p Partition) (*header, error) {
	first, next, err := p.Bounds()
	if err != nil || first == next {
		return nil, err
	}
	for back := int64(4); ; back *= 4 {
		from := max(first, next-back)
		end, err := readEnds(e, p, from, next)
		if err != nil || end != nil || from == first {
			return end, err
		}
	}
}

// readEnds returns the last end of an epoch in the records from one offset to another. A broker on a slow link may be late: records that
// have not arrived are not taken for missing ones.
func readEnds(e env.Env, p Partition, from, next int64) (end *header, err error) {
	for began := e.Now(); from < next; {
		records, err := p.Read(from, tailBytes, tailWait)
		switch {
		case err != nil && !errors.As(err, new(*Silent)):
			return nil, err
		case len(records) > 0:
			began = e.Now()
		case e.Now()-began > tailFor:
			return nil, errors.Join(fmt.Errorf("the partition has offsets up to %d, and returns nothing from %d on within %v",
				next-1, from, tailFor), err)
		default:
			e.Sleep(tailPause)
		}
		for _, r := range records {
			h, _, err := parseFrame(r.Bytes)
			if err != nil {
				return nil, &Foreign{Offset: r.Offset, Err: err}
			}
			if h.kind == kindEnd {
				end = &h
			}
			from = r.Offset + 1
		}
	}
	return end, nil
}

// checkTail refuses a partition whose newest epoch is of a run that this one did not continue, or of other rows.
func (l *Log) checkTail(run lineage.Run) error {
	if l.o.Moved || l.tail == nil {
		return nil
	}
	had := l.tail.layout
	switch {
	case l.tail.lineage == run.Lineage && had != 0 && had != l.head.layout:
		return &Refused{Final{errors.New("the topic has this run with other numbers of trainers, servers and readers: use a topic of its own, or those numbers")}}
	case l.tail.lineage == run.Lineage, slices.ContainsFunc(run.Forks, func(f lineage.Fork) bool { return f.Lineage == l.tail.lineage }):
		return nil
	}
	return &Refused{Final{fmt.Errorf("the topic has another run (lineage %s), this one is %s: use a topic of its own, or resume the run that it has (--resume)",
		l.tail.lineage.Short(), run.Lineage.Short())}}
}

// layoutOf is a hash of the owners, not 0.
func layoutOf(owners []int) uint32 {
	h := fnv.New32a()
	for _, owner := range owners {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(owner)))
	}
	return max(1, h.Sum32())
}

// Continues reports whether readers of the partition hold the model of a step or a later one, so that the next epoch need not be absolute.
func (l *Log) Continues(step int64) bool {
	return l.tail != nil && l.tail.lineage == l.o.Run().Lineage && l.tail.to >= step
}

// Step is the step of the newest epoch that was appended since CutTo, or of CutTo.
func (l *Log) Step() int64 { return l.step }

// CutTo says that the next epoch follows on a step. With 0 it is absolute. Nothing is removed: readers drop epochs that they hold. A
// partition whose newest epoch is of a run that this one did not continue is an error.
func (l *Log) CutTo(step int64) error {
	run := l.o.Run()
	if err := l.note(l.checkTail(run)); err != nil {
		return err
	}
	l.head.lineage = run.Lineage
	l.step, l.synced, l.about = step, step, false
	l.parts, l.partStep, l.ended = frames{}, 0, false
	return nil
}

// AppendPart implements store.Log.
func (l *Log) AppendPart(step int64, slots []int32, rows []byte) error {
	if l.partStep != step || l.ended {
		l.ended = false
		l.parts, l.partStep = frames{h: l.headOf(step), to: &l.batch}, step
	}
	if err := l.sendAbout(); err != nil {
		return err
	}
	l.parts.addRows(slots, rows)
	err := l.send()
	if err != nil {
		l.partStep = 0 // the parts so far are void
	}
	return err
}

// headOf is the header of an epoch.
func (l *Log) headOf(step int64) header {
	h := l.head
	h.absolute, h.from, h.to = l.step == 0, max(0, l.step-1), step-1
	return h
}

// Append implements store.Log.
func (l *Log) Append(step int64, slots []int32, rows, extra []byte) error {
	if err := l.sendAbout(); err != nil {
		return err
	}
	f := frames{h: l.headOf(step), to: &l.batch}
	if l.partStep == step {
		f, l.ended = l.parts, true
	}
	f.addRows(slots, rows)
	f.addEnd(extra)
	if err := l.send(); err != nil {
		return err
	}
	l.step, l.parts, l.partStep, l.ended = step, frames{}, 0, false
	return nil
}

// sendAbout sends the description of the run, once for each CutTo.
func (l *Log) sendAbout() error {
	if l.about || l.o.About == nil {
		return nil
	}
	text, err := l.o.About()
	if err != nil {
		return err
	}
	f := frames{h: l.head, to: &l.batch}
	f.addAbout(text)
	if err := l.send(); err != nil {
		return err
	}
	l.about = true
	return nil
}

// send appends the frames that are not appended yet, and returns the error of any of them.
func (l *Log) send() error { return l.note(l.batch.end()) }

// note remembers an error after which the log takes nothing more.
func (l *Log) note(err error) error {
	if errors.As(err, new(*Final)) {
		l.broken = err
	}
	return err
}

// Sync implements store.Log.
func (l *Log) Sync() error {
	err := l.note(l.partition.Sync())
	if err == nil {
		l.synced = l.step
	}
	return err
}

// Durable implements store.Log.
func (l *Log) Durable() int64 { return l.synced }

// Unanswered is how long the broker has left records without an acknowledgement.
func (l *Log) Unanswered() time.Duration { return Unanswered(l.partition) }

// Failed implements store.Log.
func (l *Log) Failed() error { return l.broken }

// Holds implements store.Log.
func (l *Log) Holds(step int64) bool { return step == 0 || step == l.step }

// StepUpTo implements store.Log.
func (l *Log) StepUpTo(step int64) int64 { return min(step, l.step) }

// Settle implements store.Log.
func (l *Log) Settle(int64) {}

// Clean implements store.Log: a follower trims the topic.
func (l *Log) Clean(int64) error { return nil }

// Close implements store.Log.
func (l *Log) Close() { l.partition.Close() }
