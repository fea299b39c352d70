package launcher

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/printable"
)

const (
	tailLines    = 10
	maxLineBytes = 300
	// keptBytes is how much of a worker's output is kept from its beginning, and from its
	// end.
	keptBytes = 32 << 10
)

// output receives a worker's standard error, where programs write before they crash. It is
// appended to the worker's log once the worker has created that; a job that is refused leaves
// no file.
type output struct {
	mu         sync.Mutex
	path       string
	begin      time.Time // a log older than this is of another run
	log        *os.File  // nil until it exists
	head, last []byte
}

// beginLog sets the worker's log. Until then there is none.
func (o *output) beginLog(path string) {
	const clockGrain = 20 * time.Millisecond // of file times
	o.mu.Lock()
	defer o.mu.Unlock()
	o.path, o.begin = path, time.Now().Add(-clockGrain)
}

// newOutput returns the output of a process that has a log.
func newOutput(path string) *output {
	o := new(output)
	o.beginLog(path)
	return o
}

// Write implements io.Writer. It never fails, so that the worker never waits.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := max(0, keptBytes-len(o.head))
	o.head = append(o.head, p[:min(room, len(p))]...)
	rest := p[min(room, len(p)):]
	o.last = append(o.last, rest...)
	if over := len(o.last) - keptBytes; over > 0 {
		o.last = append(o.last[:0], o.last[over:]...)
	}
	if o.log != nil {
		_, _ = o.log.Write(p) // a full disk is no reason to lose the worker
	} else if o.openLog() {
		_, _ = o.log.Write(o.head)
		_, _ = o.log.Write(o.last)
	}
	return len(p), nil
}

// openLog opens the log if this run has created it.
func (o *output) openLog() bool {
	info, err := os.Lstat(o.path)
	if err != nil || info.ModTime().Before(o.begin) {
		return false
	}
	o.log, err = os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	return err == nil
}

// crashLine is the line with which the Go runtime reports a crash, "" if there is none.
func (o *output) crashLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range [][]byte{o.head, o.last} {
		for line := range strings.Lines(string(part)) {
			for _, prefix := range []string{"panic: ", "fatal error: ", "runtime: out of memory", "SIGQUIT: quit"} {
				if strings.HasPrefix(line, prefix) {
					return printable.Clip(strings.TrimSpace(line), maxLineBytes)
				}
			}
		}
	}
	return ""
}

// lastLines is the last lines of the log, or of the output if there is no log, and the name
// of their source.
func (o *output) lastLines() (where string, lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil || o.openLog() {
		if text, err := readEnd(o.path); err == nil {
			return o.path, splitTail(text)
		}
	}
	text := o.last
	if len(text) == 0 {
		text = o.head
	}
	return "its output", splitTail(text)
}

func (o *output) closeLog() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil {
		o.log.Close()
		o.log = nil
	}
}

// readEnd reads the last keptBytes of a file.
func readEnd(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > keptBytes {
		if _, err := f.Seek(-keptBytes, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, keptBytes))
}

// splitTail is the last lines of a text, fit for a terminal.
func splitTail(text []byte) []string {
	var lines []string
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte{'\n'})
	for _, line := range all[max(0, len(all)-tailLines):] {
		if len(line) > 0 {
			lines = append(lines, printable.Clip(strings.ReplaceAll(string(line), "\t", "    "), maxLineBytes))
		}
	}
	return lines
}
