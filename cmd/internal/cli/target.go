package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// target is the file that --to names.
type target struct {
	path      string
	command   string
	writes    string // the kind of the file
	ending    string // of the names of such files; a name may have none
	overwrite bool   // any existing file may be replaced
	never     bool   // the command has no flag --overwrite
	// ours reports whether the command may replace a file without --overwrite; nil: it may replace
	// none.
	ours func(path string) bool
}

// validate returns an error if the name has the ending of another kind of file, the folder is missing or cannot
// be written, or the command must not replace an existing file.
func (t target) validate() error {
	if ending := filepath.Ext(t.path); ending != "" && ending != t.ending {
		return errUsage(fmt.Sprintf("--to %s: %s writes %s, not %s; give a name that ends in %s", t.path, t.command, t.writes, ending, t.ending))
	}
	dir := filepath.Dir(t.path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return errUsage(fmt.Sprintf("--to %s: there is no folder %s; make it first", t.path, dir))
	}
	if err := report.CheckDir(dir, "--to"); err != nil {
		return err
	}
	info, err := os.Lstat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errUsage(fmt.Sprintf("--to %s: exists and is not a regular file; give another name", t.path))
	case t.overwrite || t.ours != nil && t.ours(t.path):
		return nil
	}
	advice := "give another name or --overwrite"
	if t.never {
		advice = "give another name"
	}
	return errUsage(fmt.Sprintf("--to %s: the file exists and %s does not replace it; %s", t.path, t.command, advice))
}

// isExport reports whether a file is a model exported by ecrec, and not the model of a run.
func isExport(path string) bool {
	f, err := safetensors.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.IsOwn() && !report.IsModel(path)
}
