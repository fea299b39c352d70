package data

import (
	"fmt"
	"io"
	"os"

	"github.com/ecrec/ecrec/internal/env"
)

// envWriter writes to a file through an Env.
type envWriter struct {
	env  env.Env
	file *os.File
}

func (w envWriter) Write(b []byte) (n int, err error) {
	err = w.env.Do("write "+w.file.Name(), func() error {
		n, err = w.file.Write(b)
		return err
	})
	return n, err
}

// writeWhole makes a file appear under its name only when write has succeeded
// and the bytes are on the disk.
func writeWhole(e env.Env, name string, write func(io.Writer) error) error {
	var f *os.File
	err := e.Do("create "+name, func() (err error) {
		f, err = os.OpenFile(name+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		return err
	})
	if err != nil {
		return &Error{File: name, What: "cannot create the file", Err: err}
	}
	if err = write(envWriter{e, f}); err == nil {
		err = e.Do("sync "+name, f.Sync)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = e.Do("rename "+name, func() error { return os.Rename(f.Name(), name) })
	}
	if err != nil {
		_ = e.Do("remove "+f.Name(), func() error { return os.Remove(f.Name()) })
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
