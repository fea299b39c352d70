package launcher

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ecrec/ecrec/launcher/place"
)

// needsAddress skips a test whose processes may be on several machines, if this machine has
// no network.
func needsAddress(t *testing.T) {
	t.Helper()
	if _, err := place.OwnAddress(); err != nil {
		t.Skip("skipped: ", err)
	}
}

// byFile starts a process that meets the others by a file.
func byFile(t *testing.T, path string, process, processes int, vars ...string) *trial {
	t.Helper()
	needsAddress(t)
	return begin(t, t.TempDir(), append([]string{fmt.Sprintf("RANK=%d", process), fmt.Sprintf("WORLD_SIZE=%d", processes),
		"TEST_RDZV=" + path, "TEST_DO=done"}, vars...)...)
}

// Processes meet by a file, also if an earlier job left one: its address may be closed, or
// another program may listen there. The file is removed at the end.
func TestMeetByFile(t *testing.T) {
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	go func() {
		for {
			c, err := stranger.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for name, old := range map[string]string{"none before": "", "the address is closed": "127.0.0.1:" + freePort(t),
		"another program listens": stranger.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rendezvous")
			if old != "" {
				if err := os.WriteFile(path, []byte(old+"/"+hex.EncodeToString(place.DrawSecret())), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			one := byFile(t, path, 1, 2) // it reads the old file, and keeps polling
			if old != "" {
				until(t, "it to have read the file", func() bool { return len(processes(one.id)) > 0 })
			}
			zero := byFile(t, path, 0, 2)
			zero.ends(0)
			one.ends(0)
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file is not removed: %v", err)
			}
		})
	}
}

func TestFileInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rendezvous")
	waits := byFile(t, path, 0, 2)
	until(t, "the file to exist", func() bool { _, err := os.Stat(path); return err == nil })
	byFile(t, path, 0, 2).ends(1, path+" is in use by another job", "--rdzv")
	byFile(t, path, 1, 2).ends(0)
	waits.ends(0)
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rendezvous")
	byFile(t, path, 1, 2, "TEST_MEET=500ms").ends(1, path, "was not found by this file", "do all machines see this folder?")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	byFile(t, path, 1, 2).ends(1, path, "not this user's alone")
	byFile(t, path, 0, 2).ends(2, path, "not this user's alone")
}

func TestUnknownName(t *testing.T) {
	t.Parallel()
	var dns *net.DNSError
	if _, err := net.LookupHost("unknown.invalid"); !errors.As(err, &dns) || !dns.IsNotFound {
		t.Skipf("skipped: this machine does not report unknown names: %v", err)
	}
	vars := []string{"WORLD_SIZE=2", "TEST_RDZV=unknown.invalid:4000", "ECREC_SECRET=0123456789abcdef"}
	begin(t, t.TempDir(), append(vars, "RANK=0")...).ends(1, "unknown.invalid:4000", "--rdzv HOST:PORT")
	begin(t, t.TempDir(), append(vars, "RANK=1")...).ends(1, "the name unknown.invalid has no address on this machine", "--rdzv HOST:PORT")
}

// After the loss of the host a voter opens another rendezvous and records it in the same file.
// A restarted process finds the job by that.
func TestReturnsByFile(t *testing.T) {
	t.Parallel()
	needsAddress(t)
	x := &together{}
	path := filepath.Join(t.TempDir(), "rendezvous")
	out := t.TempDir()
	for p := range 3 {
		x.all = append(x.all, begin(t, out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=3", "TEST_RDZV="+path, "TEST_RANKS=5",
			"TEST_ELASTIC=100 0", "TEST_DO="))
	}
	x.trial = x.all[1]
	all := x.reaches(1, 0, 1, 2)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, syscall.SIGKILL, all[0].PPID)
	x.reaches(2, 1, 2)
	until(t, "another rendezvous", func() bool { text, err := os.ReadFile(path); return err == nil && string(text) != string(old) })
	x.startAgain(0)
	until(t, "the new supervisor to join", func() bool { return strings.Contains(x.said(), "joined as a spare (1 spare)") })
	x.make("whole")
	x.make("commit")
	x.reaches(3, 0, 1, 2)
	x.finish(0, 1, 2, 3)
}
