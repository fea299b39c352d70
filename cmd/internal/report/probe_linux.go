package report

import (
	"os"

	"golang.org/x/sys/unix"
)

// makeNameless makes a file without a name in a folder, which no killed process leaves behind, and removes it. ok is false if the file
// system has no such files.
func makeNameless(dir string) (ok bool) {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if err != nil { // also where a file cannot be made at all: one with a name then gives the reason
		return false
	}
	f.Close()
	return true
}
