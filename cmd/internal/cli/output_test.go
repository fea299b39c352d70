package cli

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// A process that has written to a pipe waits until the pipe is read. It does not wait for files.
func TestWaitUntilRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, f := range []*os.File{file, w} {
		if _, err := io.WriteString(f, "why"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil { // there is something to read
		t.Fatal(err)
	}
	began := time.Now()
	var reads atomic.Bool
	go func() {
		time.Sleep(20 * time.Millisecond)
		reads.Store(true)
		_, _ = r.Read(make([]byte, 10))
	}()
	waitUntilRead(file, w)
	if !reads.Load() {
		t.Error("did not wait for the reader")
	}
	if took := time.Since(began); took >= flushLimit {
		t.Errorf("waited for the file too, %v", took)
	}
}
