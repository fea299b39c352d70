//go:build !linux

package doctor

import (
	"errors"
	"time"
)

const (
	limitFiles = iota
	limitLocked
	limitProcesses
)

func limit(int) (uint64, error)            { return 0, errors.ErrUnsupported }
func space(string) (_, _ int64, err error) { return 0, 0, errors.ErrUnsupported }
func clockError() (time.Duration, error)   { return 0, errors.ErrUnsupported }
func writeDirect(string) error             { return errors.ErrUnsupported }
