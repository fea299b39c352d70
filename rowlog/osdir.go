package rowlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/uring"
)

// Access limits the ways in which files are read and written. The zero value uses the fastest that the system allows.
type Access struct {
	NoRing   bool // reads by preads, not by io_uring
	NoDirect bool // through the page cache, not by O_DIRECT
}

// OSDir is a Dir of files of the operating system. Its calls that may block run in the Env.
type OSDir struct {
	env    env.Env
	path   string
	access Access
	// rings holds the ring while no goroutine reads with it, or nil after the system refused it.
	rings    *env.Queue[*uring.Ring]
	refusal  atomic.Pointer[string] // why there is no ring; nil: there is one
	buffered atomic.Bool            // a file was read or written through the page cache
}

// OpenDir returns the folder at a path, and makes it if it is missing. The caller closes it.
func OpenDir(e env.Env, path string, access Access) (*OSDir, error) {
	d := &OSDir{env: e, path: path, access: access, rings: env.NewQueue[*uring.Ring](e, "ring of "+path, 1)}
	if err := MakeDir(e, path); err != nil {
		return nil, err
	}
	ring, why := (*uring.Ring)(nil), "io_uring is switched off"
	if !access.NoRing {
		var err error
		if ring, err = uring.Open(uring.Depth); err != nil {
			why = err.Error()
		}
	}
	if ring == nil {
		d.refusal.Store(&why)
	}
	d.rings.Put(ring)
	return d, nil
}

// MakeDir makes a folder, and those above it that are missing. Their names are durable then.
func MakeDir(e env.Env, path string) error {
	var missing []string
	err := e.Do("make "+path, func() error {
		for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				return os.MkdirAll(path, 0o777)
			}
			missing = append(missing, dir)
		}
	})
	for _, dir := range missing {
		if err == nil {
			err = syncDir(e, filepath.Dir(dir))
		}
	}
	return err
}

// Close releases the ring. No goroutine may read meanwhile.
func (d *OSDir) Close() {
	if ring, _ := d.rings.Get(); ring != nil {
		ring.Close()
	}
	d.rings.Close()
}

// Way describes how files were read and written so far: "io_uring, direct" is the fastest.
func (d *OSDir) Way() string {
	reads, files := "io_uring", "direct"
	if why := d.refusal.Load(); why != nil {
		reads = "preads (" + *why + ")"
	}
	if d.access.NoDirect || d.buffered.Load() {
		files = "page cache"
	}
	return reads + ", " + files
}

func (d *OSDir) name(number uint64) string {
	return filepath.Join(d.path, fmt.Sprintf("rows-%012d.log", number))
}

// List returns the numbers of the files, ascending.
func (d *OSDir) List() (numbers []uint64, err error) {
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

func (d *OSDir) open(number uint64, flag int) (File, error) {
	open := directio.OpenFile
	if d.access.NoDirect {
		open = os.OpenFile
	}
	f := &osFile{dir: d}
	err := d.env.Do("open "+d.name(number), func() (err error) {
		f.f, err = open(d.name(number), os.O_RDWR|flag, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Create makes an empty file.
func (d *OSDir) Create(number uint64) (File, error) { return d.open(number, os.O_CREATE|os.O_EXCL) }

// Open opens a file.
func (d *OSDir) Open(number uint64) (File, error) { return d.open(number, 0) }

// Remove removes a file.
func (d *OSDir) Remove(number uint64) error {
	return d.env.Do("remove "+d.name(number), func() error { return os.Remove(d.name(number)) })
}

// begunFile is the note of SetBegun.
const begunFile = "begun"

// Begun reports whether the folder has the note of SetBegun.
func (d *OSDir) Begun() (begun bool, err error) {
	path := filepath.Join(d.path, begunFile)
	err = d.env.Do("look for "+path, func() error {
		_, err := os.Stat(path)
		begun = err == nil
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return begun, err
}

// SetBegun makes the note that the log begins, an empty file, or removes it. Its name is durable then.
func (d *OSDir) SetBegun(begun bool) error {
	path := filepath.Join(d.path, begunFile)
	err := d.env.Do("write "+path, func() error {
		if !begun {
			return os.Remove(path)
		}
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil && (begun || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	return d.Sync()
}

// Sync makes the names of the files durable.
func (d *OSDir) Sync() error { return syncDir(d.env, d.path) }

func syncDir(e env.Env, path string) error {
	return e.Do("sync "+path, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

type osFile struct {
	dir *OSDir
	f   *os.File
}

func (f *osFile) do(what string, action func() error) error {
	return f.dir.env.Do(what+" "+f.f.Name(), action)
}

// transfer reads or writes, by O_DIRECT if the file system allows that.
func (f *osFile) transfer(action func() error) error {
	err := directio.Do(f.f, action)
	if err == nil && !directio.Enabled(f.f) {
		f.dir.buffered.Store(true)
	}
	return err
}

func (f *osFile) WriteAt(p []byte, at int64) error {
	return f.do("write", func() error {
		return f.transfer(func() error {
			_, err := f.f.WriteAt(p, at)
			return err
		})
	})
}

func (f *osFile) Size() (size int64, err error) {
	err = f.do("stat", func() error {
		info, err := f.f.Stat()
		if err == nil {
			size = info.Size()
		}
		return err
	})
	return size, err
}

func (f *osFile) Truncate(size int64) error {
	return f.do("truncate", func() error { return f.f.Truncate(size) })
}

func (f *osFile) Sync() error  { return f.do("sync", f.f.Sync) }
func (f *osFile) Close() error { return f.do("close", f.f.Close) }
