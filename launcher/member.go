package launcher

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher/control"
)

// newMember is this process as a member of the job.
func newMember(number int) control.Member {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	return control.Member{Number: number, Place: number, Host: hostIdentity(), Node: machine.NodeName(), ID: hex.EncodeToString(id)}
}

// hostIdentity is equal for processes that can share memory.
func hostIdentity() string {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	mounts, _ := os.Readlink("/proc/self/ns/mnt")
	return strings.Join([]string{name, strings.TrimSpace(string(boot)), mounts}, "/")
}
