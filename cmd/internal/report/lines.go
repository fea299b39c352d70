package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// lineFile is a file of lines to append to. A line that cannot be written, for example on a full
// disk, is left out, and the next one begins on a new line: a missing line must not end the run.
type lineFile struct {
	mu   sync.Mutex
	file *os.File
	torn bool  // the file does not end with a line end
	lost int   // lines left out
	err  error // why the first was left out
}

// openLines opens a file to append to. It follows no link and opens only regular files.
func openLines(path string) (*lineFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l := &lineFile{file: f}
	return l, l.checkEnd(info.Size())
}

// checkEnd notes whether the file ends in the middle of a line.
func (l *lineFile) checkEnd(size int64) error {
	if l.torn = false; size == 0 {
		return nil
	}
	last := make([]byte, 1)
	_, err := l.file.ReadAt(last, size-1)
	l.torn = last[0] != '\n'
	return err
}

// Write writes one line, which ends with a line end. It always succeeds; see lost.
func (l *lineFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := line
	if l.torn {
		text = append([]byte{'\n'}, line...)
	}
	n, err := l.file.Write(text)
	if n > 0 {
		l.torn = n < len(text)
	}
	if err != nil {
		if l.lost++; l.err == nil {
			l.err = err
		}
	}
	return len(line), nil
}

// cutAfter removes the lines after the last one of a step up to this one. With step 0 it removes all.
func (l *lineFile) cutAfter(step int64) error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var at, keep int64
	for in := bufio.NewReader(l.file); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		at += int64(len(line))
		var m struct{ Step int64 }
		if json.Unmarshal(line, &m) == nil && m.Step > 0 && m.Step <= step {
			keep = at
		}
	}
	l.torn = false
	return l.file.Truncate(keep)
}

func (l *lineFile) Close() error { return l.file.Close() }
