package launcher

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/ecrec/ecrec/launcher/place"
)

// squat holds a local socket as another user.
func squat(t *testing.T, socket string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: it acts as two users")
	}
	type result struct {
		l   net.Listener
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, so no other goroutine runs as this user
		const nobodysUser, unchanged = 65534, ^uintptr(0)
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, unchanged, nobodysUser, unchanged); e != 0 {
			done <- result{err: e}
			return
		}
		l, err := net.Listen("unix", socket)
		done <- result{l, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.l.Close() })
}

// If another user holds the local socket of the rendezvous, the processes meet by a file in the
// job's folder.
func TestAnotherUserHoldsTheSocket(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + freePort(t)
	_, port, _ := net.SplitHostPort(address)
	env := map[string]string{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
	p, err := place.Detect(func(name string) string { return env[name] }, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	socket := p.Rendezvous.Socket()
	squat(t, socket)
	out := t.TempDir()
	rank := func(n int, vars ...string) *trial {
		return begin(t, out, append([]string{fmt.Sprintf("RANK=%d", n), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
			"MASTER_PORT=" + port, "TEST_DO=done"}, vars...)...)
	}
	rank(1, "TEST_MEET=200ms").ends(1, address, "process 0 was not found there", "the peer is a process of user 65534")

	one := rank(1)
	zero := rank(0)
	zero.ends(0, "another user of this machine holds the local socket "+socket,
		"the processes meet by the file "+filepath.Join(out, ".rendezvous-"))
	one.ends(0)
	if left, _ := filepath.Glob(filepath.Join(out, ".rendezvous-*")); left != nil {
		t.Errorf("left: %v", left)
	}
}

// A secret that is too short is refused at every rendezvous, also if none is needed. Messages
// contain the address that the user gave.
func TestShortSecret(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	vars := []string{"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}
	begin(t, t.TempDir(), append(vars, "RANK=0", place.EnvSecret+"=short")...).ends(2, place.EnvSecret+" has 5 characters", "needs 16 or more")
	begin(t, t.TempDir(), append(vars, "RANK=1", "TEST_MEET=100ms")...).ends(1,
		"rendezvous 127.0.0.1:"+port+" (on one machine: the local socket @ecrec-")
}
