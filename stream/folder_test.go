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
