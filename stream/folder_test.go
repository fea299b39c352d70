package stream

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// A reader beside a writer reads records that are being written, and finds the file longer a moment later: none of them is damaged.
func TestReadWhileWritten(t *testing.T) {
	topic := OpenFolder(env.Real(), t.TempDir())
	if err := topic.Create(1); err != nil {
		t.Fatal(err)
	}
	writer, err := topic.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	const records = 20_000
	failed := make(chan error, 1)
	go func() {
		for i := range records {
			if err := writer.Append([][]byte{bytes.Repeat([]byte{byte(i)}, 1000+i%4000)}); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	reader, err := topic.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	began := time.Now()
	next := int64(0)
	for next < records && time.Since(began) < time.Minute {
		list, err := reader.Read(next, 1<<20, 0)
		if err != nil {
			t.Errorf("offset %d: %v", next, err)
			break
		}
		for _, r := range list {
			if want := bytes.Repeat([]byte{byte(next)}, 1000+int(next)%4000); r.Offset != next || !bytes.Equal(r.Bytes, want) {
				t.Fatalf("offset %d has %d bytes of offset %d", next, len(r.Bytes), r.Offset)
			}
			next++
		}
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if next < records && !t.Failed() {
		t.Errorf("the reader has %d of %d records after %v", next, records, time.Since(began))
	}
}

// addFile adds a file with two records to a partition.
func (p *folderPartition) addFile(t *testing.T, first int64) {
	t.Helper()
	q := &folderPartition{env: env.Real(), path: t.TempDir()}
	must(t, q.Append([][]byte{{byte(first)}, {byte(first + 1)}}))
	q.Close()
	must(t, os.Rename(q.segmentPath(0), p.segmentPath(first)))
}

// TestTrimmedWhileRead: a reader whose next record is trimmed finds that, also within a file that it has begun. Records that are
// there are read.
func TestTrimmedWhileRead(t *testing.T) {
	for name, c := range map[string]struct {
		next, before int64 // the offset to read next, that to which the partition is trimmed
		want         int64 // the offset that is read; -1: none is
	}{
		"within a file":     {1, 4, -1},
		"behind a file":     {2, 4, -1},
		"not the next file": {2, 2, 2},
	} {
		topic := OpenFolder(env.Real(), t.TempDir())
		must(t, topic.Create(1))
		opened, err := topic.Open(0)
		must(t, err)
		p := opened.(*folderPartition)
		for first := range int64(3) {
			p.addFile(t, 2*first)
		}
		for next := int64(0); next < c.next; next++ {
			_, err := p.Read(next, 1, 0)
			must(t, err)
		}
		must(t, p.Trim(c.before))
		list, err := p.Read(c.next, 1, 0)
		if gone := new(Trimmed); c.want < 0 && (!errors.As(err, &gone) || *gone != Trimmed{0, c.next, c.before, 6}) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want >= 0 && (err != nil || len(list) != 1 || list[0].Offset != c.want) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		must(t, os.RemoveAll(p.path))
		if _, err := p.Read(c.next+1, 1, 0); c.want >= 0 && !errors.As(err, new(*Gone)) {
			t.Errorf("%s, and the topic is deleted: %v", name, err)
		}
	}
}

// TestFolderLost: a reader of records that a topic has lost finds that, and one at the end waits.
func TestFolderLost(t *testing.T) {
	topic := OpenFolder(env.Real(), t.TempDir())
	must(t, topic.Create(3))
	write := func(partition, n int) {
		p, err := topic.Open(partition)
		must(t, err)
		defer p.Close()
		for range n {
			must(t, p.Append([][]byte{{1}}))
		}
		must(t, p.Sync())
	}
	write(0, 10)
	for _, c := range []struct {
		partition   int
		from, after int64
		lost        bool
	}{{0, 9, 10, false}, {0, 10, 10, false}, {0, 11, 10, true}, {0, 20, 10, true}, {1, 0, 0, false}, {1, 1, 0, true}, {2, 1, 0, true}} {
		p, err := topic.Open(c.partition)
		must(t, err)
		list, err := p.Read(c.from, 1, 0)
		if lost := new(Truncated); !c.lost && (err != nil || len(list) != int(c.after-c.from)) ||
			c.lost && (!errors.As(err, &lost) || lost.Trimmed != Trimmed{c.partition, c.from, 0, c.after}) {
			t.Errorf("partition %d, offset %d: %d records, %v", c.partition, c.from, len(list), err)
		}
		if !c.lost && c.from == c.after { // it continues with a record that is written later
			write(c.partition, 1)
			if list, err := p.Read(c.from, 1, 0); err != nil || len(list) != 1 {
				t.Errorf("partition %d, offset %d, after a write: %d records, %v", c.partition, c.from, len(list), err)
			}
			must(t, os.Truncate(p.(*folderPartition).segmentPath(0), c.after*(recordHead+1)))
		}
		p.Close()
	}
}

// TestLockAfterError: a writer that could not open its file can do so later, and is not locked out by itself.
func TestLockAfterError(t *testing.T) {
	topic := OpenFolder(env.Real(), t.TempDir())
	must(t, topic.Create(1))
	p, err := topic.Open(0)
	must(t, err)
	defer p.Close()
	inTheWay := p.(*folderPartition).segmentPath(0)
	must(t, os.MkdirAll(inTheWay, 0o777))
	if err := p.Append([][]byte{{1}}); err == nil {
		t.Fatal("a folder is in the way, and the record is written")
	}
	must(t, os.Remove(inTheWay))
	must(t, p.Append([][]byte{{1}}))
}
