package regular

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Error is the error for a file that is not regular.
type Error struct {
	Path string
	Kind string // "a folder", "a pipe", ...
}

func (e *Error) Error() string { return e.Path + " is " + e.Kind + ", not a regular file" }

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) {
	f, info, err := OpenAny(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, &Error{path, kind(info.Mode())}
	}
	return f, nil
}

// OpenAny opens a file of any kind for reading, and returns its kind. It does not wait for the
// writer of a pipe.
func OpenAny(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
