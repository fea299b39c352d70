package data

import (
	"errors"
	"fmt"
	"os"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/regular"
)

// openFile opens a non-empty regular file and returns its size.
func openFile(e env.Env, name string) (f *os.File, size int64, err error) {
	err = e.Do("open "+name, func() error {
		if f, err = regular.Open(name); err != nil {
			return err
		}
		st, err := f.Stat()
		if err != nil {
			return err
		}
		size = st.Size()
		if size == 0 {
			return fmt.Errorf("the file is empty")
		}
		return nil
	})
	if err == nil {
		return f, size, nil
	}
	if f != nil {
		f.Close()
	}
	return nil, 0, openErr(name, err)
}

// openErr explains why a named file cannot be used, as an error of the input.
func openErr(name string, err error) *Error {
	if not := (*regular.Error)(nil); errors.As(err, &not) {
		return fileErr(name, "it is %s, not a regular file; name a file of samples", not.Kind)
	}
	if pe, ok := err.(*os.PathError); ok {
		return &Error{File: name, What: "cannot " + pe.Op + " the data file", Err: pe.Err}
	}
	return &Error{File: name, What: "cannot use the data file", Err: err}
}

// readerAt reads a file through an Env.
type readerAt struct {
	env  env.Env
	file *os.File
	what string
}

// ReadAt implements io.ReaderAt. An offset before the file is the decoder's, from a damaged file, and no error of the disk.
func (r *readerAt) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("a part of it begins at byte %d", off)
	}
	err = r.env.Do(r.what, func() error {
		n, err = r.file.ReadAt(b, off)
		return err
	})
	return n, err
}
