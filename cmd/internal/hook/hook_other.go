//go:build !linux

package hook

import "syscall"

// attributes keeps signals of the terminal from a command.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
