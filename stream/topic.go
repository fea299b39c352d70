package stream

import (
	"errors"
	"fmt"
	"time"
)

// Topic is a log with partitions, of which each is written by one rank and read by anyone.
type Topic interface {
	// Name names the topic in messages.
	Name() string
	// Partitions is how many there are; 0: the topic does not exist yet.
	Partitions() (int, error)
	// Create makes a topic that does not exist yet. Of two callers at the same time both succeed.
	Create(partitions int) error
	// Keeps returns an error, with the remedy, if the topic drops records by itself, as far as that can be found out.
	Keeps() error
	// Base is the topic of the bases of this one (Bases). It need not exist. It is not used after this one is closed.
	Base() Topic
	Open(partition int) (Partition, error)
	Close()
}

// Partition is a partition of a topic. Its records have ascending offsets, between which there may be holes. One goroutine
// at a time uses a Partition.
type Partition interface {
	// Bounds are the offset of the first record that is there, and the one behind the last.
	Bounds() (first, next int64, err error)
	// Append appends records. They are there for readers, and durable, once Sync has succeeded. Their memory is the caller's again
	// when Append returns.
	Append(records [][]byte) error
	// Sync waits until all records are acknowledged. An error may be temporary (Final): Sync may be called again.
	Sync() error
	// Read returns records from an offset on, of about as many bytes, and at least one if there is one. At the end it
	// waits at most some time for the next one. A record before the first one is an error, Trimmed. Records that a topic has lost are a
	// Truncated, and a topic that is lost is a Gone, as far as that can be found out. A Silent is temporary: Read may be called again.
	Read(from int64, bytes int, wait time.Duration) ([]Record, error)
	// Trim removes the records before an offset. It may keep some of them.
	Trim(before int64) error
	Close()
}

// Timed is a Partition that has the time for which its broker is silent.
type Timed interface {
	// Unanswered is how long records have waited for an acknowledgement while there was none; 0: none waits. Any goroutine may call it.
	Unanswered() time.Duration
}

// Unanswered is that of a partition, 0 if it has none.
func Unanswered(p Partition) time.Duration {
	if x, ok := p.(Timed); ok {
		return x.Unanswered()
	}
	return 0
}

// syncTries is how often SyncAll waits for acknowledgements: for a broker that restarts, about a minute.
const syncTries = 6

// SyncAll waits until all records of a partition are acknowledged, also if that takes longer than one Sync. Unless late is nil, it is
// called after each temporary error but the last, and an error of late ends the wait.
func SyncAll(p Partition, late func(why error) error) error {
	for try := 1; ; try++ {
		err := p.Sync()
		if err == nil || errors.As(err, new(*Final)) || try == syncTries {
			return err
		}
		if late == nil {
			continue
		}
		if err := late(err); err != nil {
			return err
		}
	}
}

// Record is a record of a partition.
type Record struct {
	Offset int64
	Time   int64  // when it was written, in milliseconds since 1970
	Key    []byte // of a KeyedPartition
	Bytes  []byte
}

// Trimmed is the error of a record that is not there any more.
type Trimmed struct {
	Partition    int
	Offset       int64
	First, After int64 // the records that are there
}

func (e *Trimmed) Error() string {
	return fmt.Sprintf("partition %d: offset %d is not there any more: the topic has offsets %d to %d; it was trimmed, or its retention is too short",
		e.Partition, e.Offset, e.First, e.After-1)
}

// Truncated is the error of a topic that had records before an offset, and has lost some of them: it is a Trimmed at its end.
type Truncated struct{ Trimmed }

func (e *Truncated) Error() string {
	return fmt.Sprintf("partition %d: records before offset %d are lost: the topic begins at offset %d and ends before %d; a broker that lacked them was elected, or the topic was made anew",
		e.Partition, e.Offset, e.First, e.After)
}

func (e *Truncated) Unwrap() error { return &e.Trimmed }

// Missing is the error of an offset that cannot be read any more, with the records that are there: a Trimmed if they begin behind it,
// else a Truncated.
func Missing(partition int, offset, first, after int64) error {
	e := Trimmed{partition, offset, first, after}
	if offset < first {
		return &e
	}
	return &Truncated{e}
}

// Gone is the error of a topic that was deleted, or made anew, while it was read.
type Gone struct{ Err error }

func (e *Gone) Error() string {
	return fmt.Sprintf("the topic was deleted, or made anew, while it was read, and cannot be continued: begin anew with the topic that is there now (%v)", e.Err)
}

func (e *Gone) Unwrap() error { return e.Err }

// Final is the error of an append after which the partition takes nothing more. Another use of it may be able to.
type Final struct{ Err error }

// Refused is a Final that another use of the partition would meet too.
type Refused struct{ Final }

// Lasts reports that the partition is not to be opened again.
func (e *Refused) Lasts() bool { return true }

func (e *Refused) Unwrap() error { return &e.Final }

func (e *Final) Error() string { return e.Err.Error() }
func (e *Final) Unwrap() error { return e.Err }

// Silent is the error of a broker that has not answered for some time.
type Silent struct {
	For time.Duration
	Err error // nil: it is reached, and does not reply
}

func (e *Silent) Error() string {
	why := "no reply"
	if e.Err != nil {
		why = e.Err.Error()
	}
	return fmt.Sprintf("the broker has not answered for %v: %s", e.For.Round(time.Second), why)
}

func (e *Silent) Unwrap() error { return e.Err }
