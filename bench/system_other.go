//go:build !linux

package bench

import "syscall"

// directFlag is 0: files use the page cache here.
const directFlag = 0

// endWithParent returns nil: it is for jobs of several processes, which need Linux.
func endWithParent() *syscall.SysProcAttr { return nil }
