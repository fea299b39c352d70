package store

import (
	"errors"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/rowlog"
)

// Ranks is the number of ranks of the job that wrote the logs in a folder of store.path, by the first log that is not empty. It is 0 if there
// is none, or if no log can be read: Open has the reason.
func Ranks(e env.Env, path string) int {
	var folders []string
	_ = e.Do("list "+path, func() (err error) {
		folders, err = filepath.Glob(filepath.Join(path, "rank-*"))
		return err
	})
	for _, folder := range folders {
		if n := owners(e, folder); n > 0 {
			return n
		}
	}
	return 0
}

// owners is the number of owners of the log in a folder, 0 if it is not known.
func owners(e env.Env, folder string) int {
	d, err := rowlog.OpenDir(e, folder, rowlog.Access{NoRing: true, NoDirect: true})
	if err != nil {
		return 0
	}
	defer d.Close()
	log, err := rowlog.Open(rowlog.Options{Dir: d})
	if err == nil {
		log.Close()
	}
	var head *rowlog.Foreign // no log is of the zero lineage
	if !errors.As(err, &head) {
		return 0
	}
	return head.Owners
}
