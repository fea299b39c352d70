package doctor

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/machine"
)

// folder is what is known of an output folder.
type folder struct {
	path        string // it, or what exists of it
	total, free int64
	err         error // of measuring it
	tried       bool  // to write there
	write       error
	direct      error // of writing past the page cache
}

// lookAtFolder measures the file system of a folder, which need not exist yet, and
// with write also writes a file there and removes it.
func lookAtFolder(dir string, write bool) folder {
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

// tryWrite writes a page into a new file, through the page cache and past it.
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

func (f folder) check() Check {
	if f.err != nil {
		return Check{Status: Fail, Value: f.path, Detail: f.err.Error() + "; choose another folder"}
	}
	c := Check{Status: OK, Value: machine.Size(f.free) + " of " + machine.Size(f.total) + " free in " + f.path, amount: float64(f.free)}
	switch {
	case f.write != nil:
		c.Status, c.Detail = Fail, f.write.Error()+"; choose another folder, or make this one writable"
		return c
	case f.direct != nil:
		c.Status, c.Detail = Warn, "O_DIRECT: "+f.direct.Error()+"; checkpoints go through the page cache, which is slower"
	case f.tried:
		c.Value += ", writable, O_DIRECT works"
	}
	if f.free < freeWanted {
		c.Status, c.Detail = Warn, join("less than "+machine.Size(freeWanted)+" is free", c.Detail)
	}
	return c
}
