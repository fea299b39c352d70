package stream

import (
	"bytes"
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
