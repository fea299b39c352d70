//go:build !linux

package cli

import (
	"os"
	"syscall"
)

// unread returns 0. Only jobs of several processes call it, and those need Linux.
func unread(*os.File) int { return 0 }

// self returns the path of this program.
func self() (string, error) { return os.Executable() }

// childOfReport keeps signals of the terminal from a child.
func childOfReport() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
