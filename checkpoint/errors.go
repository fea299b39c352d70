package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
)

// ErrUnusable matches the errors of a checkpoint that cannot be loaded (Corrupt, Orphan, Newer,
// Mismatch, NotFound), and Busy.
var ErrUnusable = errors.New("checkpoint cannot be used")

// Corrupt is the error of a torn or damaged checkpoint.
type Corrupt struct {
	Path string // the checkpoint's folder
	File string // in it
	Err  error
}

func (e *Corrupt) Error() string {
	return fmt.Sprintf("%s: torn or damaged: %v; use an older checkpoint", filepath.Join(e.Path, e.File), e.Err)
}
func (e *Corrupt) Is(target error) bool { return target == ErrUnusable }
func (e *Corrupt) Unwrap() error        { return e.Err }

// Orphan is the error of an increment with a parent that cannot be used.
type Orphan struct {
	Path   string // the increment's folder
	Parent string // the name of the parent's
	Err    error
}

func (e *Orphan) Error() string {
	return fmt.Sprintf("%s: it is an increment of %s, which cannot be used: %v; keep increments and their parents in one folder, or use an older checkpoint",
		e.Path, e.Parent, e.Err)
}
func (e *Orphan) Is(target error) bool { return target == ErrUnusable }
func (e *Orphan) Unwrap() error        { return e.Err }

// Newer is the error of a checkpoint that a later version of ecrec wrote.
type Newer struct {
	Path   string
	Format int
	Needs  string // an unsupported feature; empty: the format is unsupported
}

func (e *Newer) Error() string {
	if e.Needs != "" {
		return fmt.Sprintf("%s: it needs %q, which this ecrec does not support; use the ecrec that wrote it, or a newer one", e.Path, e.Needs)
	}
	return fmt.Sprintf("%s: its format is version %d, this ecrec reads up to %d; use the ecrec that wrote it, or a newer one", e.Path,
		e.Format, format)
}
func (e *Newer) Is(target error) bool { return target == ErrUnusable }

// Mismatch is the error of a checkpoint whose model is not the run's.
type Mismatch struct {
	Path        string
	Differences string
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("%s: it holds another model: %s; use its config, or another checkpoint.dir", e.Path, e.Differences)
}
func (e *Mismatch) Is(target error) bool { return target == ErrUnusable }

// Busy is the error if another run saves to a folder.
type Busy struct{ Dir string }

func (e *Busy) Error() string {
	return fmt.Sprintf("%s: another run is saving checkpoints to this folder; wait for its end or choose another checkpoint.dir", e.Dir)
}
func (e *Busy) Is(target error) bool { return target == ErrUnusable }

// NotFound is the error of a path without a checkpoint.
type NotFound struct{ Path string }

func (e *NotFound) Error() string {
	return fmt.Sprintf("%s: no checkpoint is there (a folder step-N with a %s)", e.Path, manifestFile)
}
func (e *NotFound) Is(target error) bool { return target == ErrUnusable }
