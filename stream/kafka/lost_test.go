package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// used is a partition of a fake broker in use by a writer and by a reader.
type used struct {
	*fakeBroker
	writer, reader stream.Partition
}

// useFake writes ten records, which the reader has read.
func useFake(t *testing.T) *used {
	t.Helper()
	u := &used{fakeBroker: startFake(t)}
	topic, err := Open(env.Real(), Scheme+u.listener.Addr().String()+"/t")
	must(t, err)
	t.Cleanup(topic.Close)
	for _, p := range []*stream.Partition{&u.writer, &u.reader} {
		*p, err = topic.Open(0)
		must(t, err)
		t.Cleanup((*p).Close)
	}
	u.write(t, 10)
	for next := int64(0); next < 10; {
		list, err := u.readFrom(next)
		must(t, err)
		next = list[len(list)-1].Offset + 1
	}
	return u
}

// write writes records, of which each is acknowledged before the next.
func (u *used) write(t *testing.T, n int) {
	t.Helper()
	for range n {
		must(t, u.writer.Append([][]byte{{1, 2, 3}}))
		must(t, u.writer.Sync())
	}
}

// readFrom reads until there are records or an error, for half a minute.
func (u *used) readFrom(from int64) (list []stream.Record, err error) {
	for began := time.Now(); len(list) == 0 && err == nil; {
		if time.Since(began) > 30*time.Second {
			return nil, errors.New("nothing is read")
		}
		list, err = u.reader.Read(from, 1<<20, 200*time.Millisecond)
	}
	return list, err
}

// expectRecord checks that the next read begins with a record.
func (u *used) expectRecord(t *testing.T, offset int64) {
	t.Helper()
	list, err := u.readFrom(offset)
	if must(t, err); list[0].Offset != offset {
		t.Errorf("offset %d is read in place of %d", list[0].Offset, offset)
	}
}

// TestDroppedWhileRead: a reader whose next records were dropped by the broker does not continue behind them.
func TestDroppedWhileRead(t *testing.T) {
	t.Parallel()
	u := useFake(t)
	u.change(func() { u.refuses = true })
	for refused := 0; refused == 0; time.Sleep(time.Millisecond) { // the reader has no other request on its way
		u.change(func() { refused = u.refused })
	}
	u.write(t, 10)
	u.change(func() { u.first, u.batches, u.refuses = 15, u.batches[15:], false })
	list, err := u.readFrom(10)
	if x := new(stream.Trimmed); !errors.As(err, &x) || *x != (stream.Trimmed{Offset: 10, First: 15, After: 20}) || errors.As(err, new(*stream.Truncated)) {
		t.Errorf("%d records, %v", len(list), err)
	}
	u.expectRecord(t, 15)
}

// TestTruncatedWhileRead: a reader finds that a new leader lacks records that it has read, also if others have their offsets now.
func TestTruncatedWhileRead(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]int64{"shorter": 5, "as long": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := useFake(t)
			u.change(func() { u.epoch, u.kept, u.next, u.batches = 1, 5, next, u.batches[:next] })
			list, err := u.readFrom(10)
			if x := new(stream.Truncated); !errors.As(err, &x) || x.Offset != 10 || x.After != next || !errors.As(err, new(*stream.Trimmed)) {
				t.Errorf("%d records, %v", len(list), err)
			}
			if next < 10 {
				list, err = u.readFrom(10)
			}
			if !errors.As(err, new(*stream.Truncated)) {
				t.Errorf("read again: %d records, %v", len(list), err)
			}
			u.write(t, 1)
			u.expectRecord(t, next)
		})
	}
}

// TestGoneWhileRead: a reader does not wait for a topic that was deleted, nor for another one with its name.
func TestGoneWhileRead(t *testing.T) {
	t.Parallel()
	for name, id := range map[string][16]byte{"deleted": {}, "made anew": {2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := useFake(t)
			u.change(func() { u.id, u.next, u.batches = id, 0, nil })
			if list, err := u.readFrom(10); !errors.As(err, new(*stream.Gone)) {
				t.Errorf("%d records, %v", len(list), err)
			}
		})
	}
}

// TestLostByBroker: a broker that has lost what it acknowledged ends the writer: no record follows on lost ones.
func TestLostByBroker(t *testing.T) {
	t.Parallel()
	u := useFake(t)
	u.change(func() { u.produce = kerr.OutOfOrderSequenceNumber })
	for i := range 2 {
		err := u.writer.Append([][]byte{{4}})
		if err == nil {
			err = u.writer.Sync()
		}
		if !errors.As(err, new(*stream.Final)) || !strings.Contains(err.Error(), "has lost records") {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if _, next, err := u.writer.Bounds(); err != nil || next != 10 {
		t.Errorf("the topic has records up to offset %d, %v", next-1, err)
	}
}

// TestUnanswered: a writer has the time for which a broker that takes nothing has left its records without an acknowledgement.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	u := useFake(t)
	if x := stream.Unanswered(u.writer); x != 0 {
		t.Errorf("%v without an answer, and no record waits", x)
	}
	u.change(func() { u.produce = kerr.NotEnoughReplicas })
	must(t, u.writer.Append([][]byte{{4}}))
	for stream.Unanswered(u.writer) < 20*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	u.change(func() { u.produce = nil })
	must(t, stream.SyncAll(u.writer, nil))
	if x := stream.Unanswered(u.writer); x != 0 {
		t.Errorf("%v without an answer after the acknowledgement", x)
	}
}

// A broker that is killed may end a connection before its first answer, as one that misses credentials does. Those were right before.
func TestConnectionsEndBeforeTheirFirstAnswer(t *testing.T) {
	u := useFake(t)
	topic, err := Open(env.Real(), Scheme+u.listener.Addr().String()+"/t")
	must(t, err)
	t.Cleanup(topic.Close)
	u.change(func() {
		for _, c := range u.conns {
			c.Close()
		}
		u.ends = 4
	})
	if _, err := topic.Partitions(); err != nil {
		t.Errorf("the number of partitions: %v", err)
	}
	if _, _, err := u.reader.Bounds(); err != nil {
		t.Errorf("the bounds: %v", err)
	}
	u.write(t, 1)
	u.expectRecord(t, 10)
	u.change(func() {
		if u.ends > 0 {
			t.Errorf("%d connections did not end", u.ends)
		}
	})
	u.change(func() { u.ends = 1000 }) // more than the other clients may use up
	if _, err := Open(env.Real(), Scheme+u.listener.Addr().String()+"/t"); err == nil || !strings.Contains(err.Error(), "credentials") {
		t.Errorf("opened first, perhaps without credentials: %v", err)
	}
}
