package doctor

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/machine"
)

// folder is the state of an output folder.
type folder struct {
	path        string // the folder, or the nearest existing one above it
	total, free int64
	err         error // of reading the size
	tried       bool  // a file was written
	write       error
	direct      error // of writing with O_DIRECT
}

// inspectFolder reads the size of a folder's file system. The folder need not exist. With write it
// also writes a file there and removes it.
func inspectFolder(dir string, write bool) folder {
	f := folder{path: dir, tried: write}
	for {
		f.total, f.free, f.err = space(f.path)
		above := filepath.Dir(f.path)
		if !errors.Is(f.err, os.ErrNotExist) || above == f.path {
			break
		}
		f.path = above
	}
	if f.err == nil && write {
		f.write, f.direct = tryWrite(f.path)
	}
	return f
}

// tryWrite writes a page to a new file, through the page cache and with O_DIRECT.
func tryWrite(dir string) (write, direct error) {
	f, err := os.CreateTemp(dir, ".ecrec-doctor-*")
	if err != nil {
		return err, nil
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(make([]byte, 4096))
	if err = errors.Join(err, f.Close()); err != nil {
		return err, nil
	}
	return nil, writeDirect(f.Name())
}

// freeWanted is room for a run's logs and a small model.
const freeWanted = 1 << 30

func (f folder) toCheck() Check {
	if f.err != nil {
		return Check{Status: Fail, Value: f.path, Detail: f.err.Error() + "; choose another folder"}
	}
	c := Check{Status: OK, Value: machine.Size(f.free) + " of " + machine.Size(f.total) + " free in " + f.path, amount: float64(f.free)}
	switch {
	case f.write != nil:
		c.Status, c.Detail = Fail, f.write.Error()+"; choose another folder, or make this one writable"
		return c
	case f.direct != nil:
		c.Status, c.Detail = Warn, "O_DIRECT: "+f.direct.Error()+"; checkpoints use the page cache, which is slower"
	case f.tried:
		c.Value += ", writable, O_DIRECT works"
	}
	if f.free < freeWanted {
		c.Status, c.Detail = Warn, join("less than "+machine.Size(freeWanted)+" is free", c.Detail)
	}
	return c
}
