//go:build !linux

package cli

import "os"

// unread returns 0. Only jobs of several processes call it, and those need Linux.
func unread(*os.File) int { return 0 }

// self returns the path of this program.
func self() (string, error) { return os.Executable() }
