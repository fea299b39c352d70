package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Read returns the events of r. It skips lines that are not events, for example incomplete ones. It
// does not skip lines with unknown keys or names.
func Read(r io.Reader) ([]Event, error) {
	var all []Event
	err := Lines(r, func(line []byte) {
		if e, ok := parse(line); ok {
			all = append(all, e)
		}
	})
	return all, err
}

// Lines calls do with each complete line of r, which is valid until do returns. It skips lines
// longer than maxLineBytes, which no event and no line of metrics exceeds.
func Lines(r io.Reader, do func(line []byte)) error {
	lines := bufio.NewReaderSize(r, maxLineBytes)
	for {
		line, err := lines.ReadSlice('\n')
		if err == nil {
			do(line)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

func parse(line []byte) (e Event, ok bool) {
	if len(line) < 2 || line[0] != '{' {
		return e, false
	}
	err := json.Unmarshal(line, &e)
	return e, err == nil && e.Event != ""
}

// ReadFile returns the events of a file. If the file does not exist, the error wraps fs.ErrNotExist.
func ReadFile(path string) ([]Event, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s: not a regular file", path))
	}
	return Read(f)
}

// LastRun returns the events of the newest run of a file that several runs have appended to.
func LastRun(all []Event) []Event {
	for i := len(all) - 1; i >= 0; i-- {
		if n := all[i].Event; n == Start || n == Resume {
			return all[i:]
		}
	}
	return all
}
