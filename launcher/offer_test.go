package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOffer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "rendezvous")
	if _, _, err := readOffer(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("where there is none: %v", err)
	}
	secret := draw(secretBytes)
	if err := writeOffer(path, "127.0.0.1:4000", secret); err != nil {
		t.Fatal(err)
	}
	m, got, err := readOffer(path)
	if err != nil || m != (Meeting{"tcp", "127.0.0.1:4000"}) || string(got) != string(secret) {
		t.Fatalf("read %v, %x, %v", m, got, err)
	}
	if s, _ := os.Stat(path); s.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", s.Mode())
	}
	at := Meeting{"file", path}
	at.withdraw(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4001}) // another's
	if _, _, err := readOffer(path); err != nil {
		t.Errorf("another's offer is withdrawn: %v", err)
	}
	at.withdraw(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4000})
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for _, text := range []string{"", "127.0.0.1:4000", "127.0.0.1:4000/12", "127.0.0.1/" + strings.Repeat("ab", secretBytes), strings.Repeat("x", 2*maxOffer)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, _, err := readOffer(path); err == nil {
			t.Errorf("%.40q is read as %v", text, m)
		}
	}
	if err := os.WriteFile(path, []byte(offerText("127.0.0.1:4000", secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readOffer(path); !errors.Is(err, ErrPlace) {
		t.Errorf("a file that anybody may read: %v", err)
	}
}

// byFile starts processes that meet by a file.
func byFile(t *testing.T, path string, process, processes int, vars ...string) *trial {
	t.Helper()
	return begin(t, t.TempDir(), append([]string{fmt.Sprintf("RANK=%d", process), fmt.Sprintf("WORLD_SIZE=%d", processes), "TEST_RDZV=" + path, "TEST_DO=done"}, vars...)...)
}

// Processes meet by a file, also by one that another job has left, whether nobody
// listens there any more or somebody else does; the file goes when they do.
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
	for name, old := range map[string]string{"none before": "", "nobody listens": "127.0.0.1:" + freePort(t), "a stranger listens": stranger.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rendezvous")
			if old != "" {
				if err := writeOffer(path, old, draw(secretBytes)); err != nil {
					t.Fatal(err)
				}
			}
			one := byFile(t, path, 1, 2) // reads what is old, and goes on looking
			if old != "" {
				until(t, "it to have read the file", func() bool { return len(processes(one.id)) > 0 })
			}
			zero := byFile(t, path, 0, 2)
			zero.ends(0)
			one.ends(0)
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file stays: %v", err)
			}
		})
	}
}

func TestFileInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rendezvous")
	waits := byFile(t, path, 0, 2)
	until(t, "the file to be there", func() bool { _, _, err := readOffer(path); return err == nil })
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
	vars := []string{"WORLD_SIZE=2", "TEST_RDZV=unknown.invalid:4000", "ECREC_SECRET=0123456789abcdef"}
	begin(t, t.TempDir(), append(vars, "RANK=0")...).ends(1, "unknown.invalid:4000", "--rdzv HOST:PORT")
	begin(t, t.TempDir(), append(vars, "RANK=1")...).ends(1, "the name unknown.invalid is not known on this machine", "--rdzv HOST:PORT")
}

// Where the host is lost a voter offers another rendezvous in the same file, by which who
// is started again finds the job.
func TestReturnsByFile(t *testing.T) {
	t.Parallel()
	x := &together{}
	path := filepath.Join(t.TempDir(), "rendezvous")
	out := t.TempDir()
	for p := range 3 {
		x.all = append(x.all, begin(t, out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=3", "TEST_RDZV="+path, "TEST_RANKS=5", "TEST_ELASTIC=100 0", "TEST_DO="))
	}
	x.trial = x.all[1]
	all := x.reaches(1, 0, 1, 2)
	old, _, err := readOffer(path)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, syscall.SIGKILL, all[0].PPID)
	x.reaches(2, 1, 2)
	until(t, "another rendezvous", func() bool { m, _, err := readOffer(path); return err == nil && m != old })
	x.startAgain(0)
	until(t, "it to be taken in", func() bool { return strings.Contains(x.said(), "has come; spares: 1") })
	x.make("whole")
	x.make("commit")
	x.reaches(3, 0, 1, 2)
	x.finish(0, 1, 2, 3)
}
