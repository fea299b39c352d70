package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
)

// ErrUnusable is what errors about a checkpoint that is there but cannot be
// loaded are: Corrupt, Newer, Mismatch and NotFound.
var ErrUnusable = errors.New("checkpoint cannot be used")

// Corrupt says that a checkpoint is torn or damaged.
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

// Newer says that a later version of ecrec wrote a checkpoint.
type Newer struct {
	Path   string
	Format int
}

func (e *Newer) Error() string {
	return fmt.Sprintf("%s: its format is version %d, this ecrec reads up to %d; use the ecrec that wrote it, or a newer one", e.Path, e.Format, format)
}
func (e *Newer) Is(target error) bool { return target == ErrUnusable }

// Mismatch says that a checkpoint is of another model than the run's.
type Mismatch struct {
	Path        string
	Differences string
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("%s: it holds another model: %s; use its config, or another checkpoint.dir", e.Path, e.Differences)
}
func (e *Mismatch) Is(target error) bool { return target == ErrUnusable }

// NotFound says that no checkpoint is at a path.
type NotFound struct{ Path string }

func (e *NotFound) Error() string {
	return fmt.Sprintf("%s: no checkpoint is there (a folder step-N with a %s)", e.Path, manifestFile)
}
func (e *NotFound) Is(target error) bool { return target == ErrUnusable }
