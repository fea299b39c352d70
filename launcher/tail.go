package launcher

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	tailLines    = 10
	maxLineBytes = 300
	// keptBytes is how much of a worker's output is kept from its beginning and
	// from its end.
	keptBytes = 32 << 10
)

// output takes what a worker writes to the places where programs write before
// they die. It goes to the end of the worker's log, once the worker has made one;
// a job that is refused leaves no file.
type output struct {
	path  string
	begin time.Time // a log older than this is of another run

	mu         sync.Mutex
	log        *os.File // nil until it is there
	head, last []byte
}

func newOutput(path string) *output {
	const clockGrain = 20 * time.Millisecond // of file times
	return &output{path: path, begin: time.Now().Add(-clockGrain)}
}

// Write implements io.Writer; it never fails, so that the worker never waits.
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
	} else if o.open() {
		_, _ = o.log.Write(o.head)
		_, _ = o.log.Write(o.last)
	}
	return len(p), nil
}

// open opens the log if this run has made it.
func (o *output) open() bool {
	info, err := os.Stat(o.path)
	if err != nil || info.ModTime().Before(o.begin) {
		return false
	}
	o.log, err = os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND, 0)
	return err == nil
}

// crash is the line with which the runtime says why it ended the worker, "" if
// it did not.
func (o *output) crash() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range [][]byte{o.head, o.last} {
		for line := range strings.Lines(string(part)) {
			for _, prefix := range []string{"panic: ", "fatal error: ", "runtime: out of memory", "SIGQUIT: quit"} {
				if strings.HasPrefix(line, prefix) {
					return clip(strings.TrimSpace(line))
				}
			}
		}
	}
	return ""
}

// tail is where to look, and the last lines there.
func (o *output) tail() (where string, lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil || o.open() {
		if text, err := endOf(o.path); err == nil {
			return o.path, lastLines(text)
		}
	}
	text := o.last
	if len(text) == 0 {
		text = o.head
	}
	return "its output", lastLines(text)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log != nil {
		o.log.Close()
		o.log = nil
	}
}

// endOf is the end of a file.
func endOf(path string) ([]byte, error) {
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

func lastLines(text []byte) []string {
	var lines []string
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte{'\n'})
	for _, line := range all[max(0, len(all)-tailLines):] {
		if len(line) > 0 {
			lines = append(lines, clip(string(line)))
		}
	}
	return lines
}

// clip keeps a line short, and without what could change a terminal.
func clip(line string) string {
	if len(line) > maxLineBytes {
		line = line[:maxLineBytes] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(line, "?"))
}
