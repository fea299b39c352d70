//go:build !linux

package launcher

import (
	"errors"
	"syscall"
)

// supported is false: children would outlive a parent that is killed. Run refuses jobs of
// several processes, so nothing below is called.
const supported = false

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
func withSlack(start func() error) error    { return start() }
func waitExited(int)                        {}
func socketPair() ([2]int, error)           { return [2]int{}, errors.ErrUnsupported }
