package event

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// File is the name of the file in job.out.
const File = "events.jsonl"

const (
	maxLineBytes = 64 << 10
	// maxTextBytes is the maximum length of a cause or an error.
	maxTextBytes = 2 << 10
)

// Writer appends events to a file. It is used by one goroutine at a time.
type Writer struct {
	file *os.File
	torn bool // the file may end in the middle of a line
}

// OpenWriter opens the file at path to append, or creates it.
func OpenWriter(path string) (*Writer, error) {
	// O_NONBLOCK: a FIFO without a reader is an error, not a wait.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file; remove it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	w := &Writer{file: f}
	if size := info.Size(); size > 0 {
		var last [1]byte
		_, err := f.ReadAt(last[:], size-1)
		w.torn = err != nil || last[0] != '\n'
	}
	return w, nil
}

// Write appends one event. The time of an event without one is now.
func (w *Writer) Write(e Event) error {
	line, err := Line(e)
	if err != nil {
		return err
	}
	if w.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := w.file.Write(line)
	w.torn = err != nil && (w.torn || n > 0)
	return err
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Line returns an event as a line of the file, with the line end.
func Line(e Event) ([]byte, error) {
	if e.Time.IsZero() {
		e.Time = At(time.Now())
	}
	e.Cause, e.Error = clip(e.Cause), clip(e.Error)
	line, err := json.Marshal(e)
	if err == nil && len(line) >= maxLineBytes && len(e.Members) > 0 {
		e.Members = nil // the list of thousands of processes is too long, and the other keys matter more
		line, err = json.Marshal(e)
	}
	if err != nil {
		return nil, err
	}
	if len(line) >= maxLineBytes {
		return nil, fmt.Errorf("event %q: a line of %d bytes is over the limit of %d", e.Event, len(line), maxLineBytes)
	}
	return append(line, '\n'), nil
}

// clip shortens a text that is too long.
func clip(s string) string {
	if len(s) <= maxTextBytes {
		return s
	}
	const more = "..."
	end := maxTextBytes - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}
