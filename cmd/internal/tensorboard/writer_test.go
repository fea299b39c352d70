package tensorboard

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The bytes equal those of TensorFlow's own writer for the same events: a header at 1.5 s, and the
// value 0.25 of "train/loss" after step 300.
func TestRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tb")
	w, err := Create(dir, "process-0")
	if err != nil {
		t.Fatal(err)
	}
	path := w.f.Name()
	w.now = func() time.Time { return time.Unix(1, 5e8) }
	if err := w.f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.writeRecord(text(w.appendHead(nil, 0), 3, "brain.Event:2")); err != nil {
		t.Fatal(err)
	}
	if err := w.Scalar(300, "train/loss", 0.25); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := hex.EncodeToString(got); text != golden {
		t.Errorf("got  %s\nwant %s", text, golden)
	}
	if matches, _ := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*.process-0")); len(matches) != 1 {
		t.Errorf("files %v", matches)
	}
}

// A nil Writer, and one whose disk is full, do nothing.
func TestBrokenWriter(t *testing.T) {
	var none *Writer
	if none.Scalar(1, "x", 1) != nil || none.Close() != nil {
		t.Error("a nil Writer has errors")
	}
	w, err := Create(t.TempDir(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Scalar(1, "x", 1) == nil {
		t.Error("a value is lost without an error")
	}
	if err := w.Scalar(2, "x", 1); err != nil {
		t.Errorf("the loss is reported again: %v", err)
	}
}

// golden was written by the package tensorboard 2.21 of PyPI.
const golden = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c" +
	"2100000000000000017becf609000000000000f83f10ac022a130a110a0a747261696e2f6c6f7373150000803e6557981f"
