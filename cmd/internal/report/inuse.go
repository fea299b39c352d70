package report

import "errors"

// InUse reports whether a run is writing to a folder. It returns an error if the lock cannot be read.
func InUse(dir string) (bool, error) {
	err := CheckFree(dir)
	if errors.As(err, new(*busyError)) {
		return true, nil
	}
	return false, err
}
