package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/filelock"
)

// lockFile holds the lock of a run on its folder. Only its owner can open it, so that a user who may
// read the run's logs cannot lock it.
const lockFile = "run.lock"

// holder describes the process that took the lock. The lock file contains it.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Began time.Time `json:"began"` // start of the run, on whichever of its processes
	Job   string    `json:"job"`   // its id
}

// busyError is the error for a folder that another run is writing to.
type busyError struct {
	dir string
	by  holder
}

func (e *busyError) Error() string {
	by := ""
	if e.by.PID > 0 {
		by = fmt.Sprintf(" (process %d on %s, since %s)", e.by.PID, e.by.Host, e.by.Began.Format(time.DateTime))
	}
	return fmt.Sprintf("%s: another run is writing to this folder%s; wait until it ends or choose another folder with job.out", e.dir, by)
}
func (e *busyError) Is(target error) bool { return target == ErrOutput }

// CheckFree returns an error if a run is writing to a folder. The run's own processes must not call
// it once process 0 has opened the folder.
func CheckFree(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &outputError{dir, "job.out", err}
	}
	defer f.Close()
	_, err = lock(dir, f, filelock.Shared)
	return err
}

// lock takes the lock until the file is closed or the process dies. On a file system without locks,
// held is false and the error nil.
func lock(dir string, f *os.File, mode filelock.Mode) (held bool, err error) {
	switch filelock.Try(f, mode) {
	case nil:
		return true, nil
	case filelock.ErrHeld:
		return false, &busyError{dir, readHolder(f)}
	default:
		return false, nil
	}
}

// LockFile makes a file and locks it until it is closed. free is false, and f nil, if another process holds the lock. A file system
// without locks has no lock to hold.
func LockFile(path string) (f *os.File, free bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, false, err
	}
	if errors.Is(filelock.Try(f, filelock.Exclusive), filelock.ErrHeld) {
		return nil, false, f.Close()
	}
	return f, true, nil
}

// readHolder returns the content of the lock file, the zero holder if it cannot be read.
func readHolder(f *os.File) (h holder) {
	const most = 1 << 10
	text := make([]byte, most)
	n, _ := f.ReadAt(text, 0) // a file that cannot be read names no process
	if json.Unmarshal(text[:n], &h) != nil {
		return holder{}
	}
	return h
}

// takeLock takes the folder for this run, and notes whether another of its processes has begun
// there. A process that replaces a lost one waits for the lock. If the lost one is frozen and holds
// it, this process continues without the lock: the job has excluded the other.
func (r *Run) takeLock(b Beginning) (err error) {
	if r.lock, err = os.OpenFile(r.path(lockFile), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600); err != nil {
		return err
	}
	const patience, again = time.Second, 10 * time.Millisecond
	for begin := time.Now(); ; time.Sleep(again) {
		r.locked, err = lock(r.dir, r.lock, filelock.Exclusive)
		if err == nil {
			break
		}
		if !b.Replaces {
			return err
		}
		if time.Since(begin) > patience {
			break
		}
	}
	before := readHolder(r.lock)
	r.continues = b.Job != "" && before.Job == b.Job
	if r.Began = before.Began; !r.continues {
		r.Began = time.Now().UTC().Truncate(time.Millisecond)
	}
	if err != nil {
		return nil // another holds it
	}
	return r.signLock(b.Job)
}

// signLock writes the holder of the lock to its file.
func (r *Run) signLock(job string) error {
	h := holder{PID: os.Getpid(), Began: r.Began, Job: job}
	h.Host, _ = os.Hostname() // shown in messages only
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err = r.lock.Truncate(0); err == nil {
		_, err = r.lock.WriteAt(append(text, '\n'), 0)
	}
	return err
}
