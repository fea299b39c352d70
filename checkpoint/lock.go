package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/atomicfile"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/filelock"
	"github.com/ecrec/ecrec/lineage"
)

// lockFile is a file in checkpoint.dir. The run that saves there locks it.
const lockFile = ".lock"

// lockAgain is the interval between attempts to take a lock that another process holds.
const lockAgain = 10 * time.Millisecond

// Lock is a run's lock on the folder that it saves to. It ends with Close, or with the
// process. On a file system without locks, a Lock has no effect.
type Lock struct {
	dir  string
	file *os.File // nil: nothing is locked
}

// Hold creates a folder and locks it. If another run holds the lock for all of patience, the
// error is a Busy.
func Hold(e env.Env, dir string, patience time.Duration) (l *Lock, err error) {
	for until := e.Now() + patience; ; e.Sleep(lockAgain) {
		err := e.Do("lock checkpoints", func() (err error) {
			l, err = hold(dir)
			return err
		})
		if !errors.As(err, new(*Busy)) || e.Now() >= until {
			return l, err
		}
	}
}

func hold(dir string) (*Lock, error) {
	if err := atomicfile.MakeDir(dir, 0o755); err != nil {
		return nil, saveError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK,
		0o600) // a process that can open the file can lock it
	if err != nil {
		return nil, saveError(dir, err)
	}
	held, err := flock(dir, f, filelock.Exclusive)
	if !held {
		f.Close()
		f = nil
	}
	if err != nil {
		return nil, err
	}
	return &Lock{dir, f}, nil
}

// flock reports whether it has taken a lock. The error is a Busy.
func flock(dir string, f *os.File, mode filelock.Mode) (bool, error) {
	switch filelock.Try(f, mode) {
	case nil:
		return true, nil
	case filelock.ErrHeld:
		return false, &Busy{dir}
	default:
		return false, nil // no locks on this file system
	}
}

// CheckFree returns a Busy if a run is saving to a folder. An empty name is no folder.
func CheckFree(dir string) error {
	if dir == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil // no run has saved here; Hold reports other errors
	}
	defer f.Close()
	_, err = flock(dir, f, filelock.Shared)
	return err
}

// Holds reports whether the lock still keeps other runs out. It does not if the folder was
// removed and created again.
func (l *Lock) Holds() bool {
	if l == nil || l.file == nil {
		return false
	}
	mine, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(l.dir, lockFile))
	return err == nil && os.SameFile(mine, there)
}

// RemoveLeftovers removes what a process left that ended while it saved or removed a checkpoint. If the lock does not keep other runs out,
// one of them may be saving, and nothing is removed.
func (l *Lock) RemoveLeftovers(e env.Env) error {
	return e.Do("remove leftovers", func() error {
		if !l.Holds() {
			return nil
		}
		return removeLeftovers(l.dir, lineage.ID{}, true)
	})
}

// Close lets other runs save to the folder.
func (l *Lock) Close() {
	if l != nil && l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
