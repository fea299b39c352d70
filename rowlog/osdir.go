package rowlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

// OpenDir returns the folder at a path, and makes it if it is missing. All calls that may block run in e.
func OpenDir(e env.Env, path string) (Dir, error) {
	if err := e.Do("make "+path, func() error { return os.MkdirAll(path, 0o777) }); err != nil {
		return nil, err
	}
	return osDir{e, path}, nil
}

type osDir struct {
	env  env.Env
	path string
}

func (d osDir) name(number uint64) string {
	return filepath.Join(d.path, fmt.Sprintf("rows-%012d.log", number))
}

func (d osDir) List() (numbers []uint64, err error) {
	err = d.env.Do("list "+d.path, func() error {
		entries, err := os.ReadDir(d.path)
		for _, e := range entries {
			var n uint64
			if k, _ := fmt.Sscanf(e.Name(), "rows-%d.log", &n); k == 1 && filepath.Join(d.path, e.Name()) == d.name(n) {
				numbers = append(numbers, n)
			}
		}
		return err
	})
	slices.Sort(numbers)
	return numbers, err
}

func (d osDir) open(number uint64, flag int) (File, error) {
	var f *os.File
	err := d.env.Do("open "+d.name(number), func() (err error) {
		f, err = os.OpenFile(d.name(number), os.O_RDWR|flag, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return osFile{d.env, f}, nil
}

func (d osDir) Create(number uint64) (File, error) { return d.open(number, os.O_CREATE|os.O_EXCL) }
func (d osDir) Open(number uint64) (File, error)   { return d.open(number, 0) }

func (d osDir) Remove(number uint64) error {
	return d.env.Do("remove "+d.name(number), func() error { return os.Remove(d.name(number)) })
}

func (d osDir) Sync() error {
	return d.env.Do("sync "+d.path, func() error {
		f, err := os.Open(d.path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

type osFile struct {
	env env.Env
	f   *os.File
}

func (f osFile) do(what string, action func() error) error {
	return f.env.Do(what+" "+f.f.Name(), action)
}

func (f osFile) WriteAt(p []byte, at int64) error {
	return f.do("write", func() error {
		_, err := f.f.WriteAt(p, at)
		return err
	})
}

func (f osFile) ReadAll(parts []Part) error {
	return f.do("read", func() error {
		for _, p := range parts {
			if _, err := f.f.ReadAt(p.Bytes, p.At); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f osFile) Size() (size int64, err error) {
	err = f.do("stat", func() error {
		info, err := f.f.Stat()
		if err == nil {
			size = info.Size()
		}
		return err
	})
	return size, err
}

func (f osFile) Truncate(size int64) error {
	return f.do("truncate", func() error { return f.f.Truncate(size) })
}

func (f osFile) Sync() error  { return f.do("sync", f.f.Sync) }
func (f osFile) Close() error { return f.do("close", f.f.Close) }
