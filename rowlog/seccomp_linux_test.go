package rowlog

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/env"
)

// forbid makes the kernel refuse a system call of this process with EPERM, on all threads and for ever.
func forbid(call uint32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestForbiddenRing runs a process whose seccomp filter forbids io_uring: from the start, and from a moment at which reads are under way. All
// reads succeed.
func TestForbiddenRing(t *testing.T) {
	const variable = "ROWLOG_TEST_FORBID"
	switch os.Getenv(variable) {
	case "setup":
		readForbidden(t, unix.SYS_IO_URING_SETUP, 0)
		return
	case "enter":
		readForbidden(t, unix.SYS_IO_URING_ENTER, 30*time.Millisecond)
		return
	}
	for _, call := range []string{"setup", "enter"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestForbiddenRing$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+call)
		out, err := cmd.CombinedOutput()
		t.Logf("%s:\n%s", call, out)
		if err != nil {
			t.Error(err)
		}
	}
}

// readForbidden reads in a loop, and forbids a system call after some time, or before the first read.
func readForbidden(t *testing.T, call uint32, after time.Duration) {
	rnd := seeded(t)
	if after == 0 {
		if err := forbid(call); err != nil {
			t.Skip(err)
		}
	}
	d, err := OpenDir(env.Real(), t.TempDir(), Access{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first := d.Way()
	if after > 0 && !strings.HasPrefix(first, "io_uring, ") {
		t.Skip(first)
	}
	content := randomBytes(rnd, 4<<20)
	f := fileOf(t, d, 1, content)
	forbidden := make(chan error, 1)
	if after > 0 {
		time.AfterFunc(after, func() { forbidden <- forbid(call) })
	}
	calls := 0
	for begin := time.Now(); time.Since(begin) < 10*time.Second && strings.HasPrefix(d.Way(), "io_uring, ") || calls < 3; calls++ {
		var parts []Part
		for range 8000 {
			n := rnd.IntN(1000)
			parts = append(parts, Part{int64(rand.IntN(len(content) - n)), make([]byte, n)})
		}
		if err := errors.Join(f.ReadAll(parts), checkParts(content, parts)); err != nil {
			t.Fatal(err)
		}
	}
	if after > 0 {
		if err := <-forbidden; err != nil {
			t.Skip(err)
		}
	}
	t.Logf("%s, then %s after %d calls", first, d.Way(), calls)
	if !strings.HasPrefix(d.Way(), "preads (io_uring is refused: io_uring_") || !strings.Contains(d.Way(), "operation not permitted") {
		t.Error("the files were read by", d.Way())
	}
}
