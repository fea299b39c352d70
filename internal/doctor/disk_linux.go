package doctor

import (
	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/machine"
)

// freeDisk is what a user may still write where dir is.
func freeDisk(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "cannot be told: " + err.Error()
	}
	return machine.Size(int64(st.Bavail)*st.Bsize) + " free in this folder"
}
