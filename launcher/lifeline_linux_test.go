package launcher

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"
)

func init() {
	if how := os.Getenv("TEST_LIFELINE"); how != "" {
		os.Exit(holdAndWait(how))
	}
}

// holdAndWait is a child of TestLifeline: it holds the lifeline, fills memory, and waits for its end.
func holdAndWait(how string) int {
	if how != "none" {
		holdLifeline(3)
	}
	memory := make([]byte, 256<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = os.Stdin.Read(memory[:1])
	return 3
}

// TestLifeline: a lifeline reports SIGKILL, and no other end.
func TestLifeline(t *testing.T) {
	for _, c := range []struct {
		how, name      string
		kill, reported bool
	}{
		{"hold", "killed", true, true},
		{"hold", "exit", false, false},
		{"none", "killed without a lifeline", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := openLifeline()
			if n == nil {
				t.Fatal("the system has no lifeline")
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "TEST_LIFELINE="+c.how)
			cmd.ExtraFiles = []*os.File{n.file}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("the child wrote %q: %v", line, err)
			}
			killed, returned := make(chan time.Time, 2), make(chan struct{})
			go func() {
				n.await(cmd.Process.Pid, func() { killed <- time.Now() })
				close(returned)
			}()
			began := time.Now()
			if c.kill {
				_ = cmd.Process.Kill()
			} else {
				_ = in.Close()
			}
			if c.reported {
				select {
				case at := <-killed:
					t.Logf("noticed after %v", at.Sub(began))
				case <-time.After(time.Minute):
					t.Fatal("no lifeline within a minute")
				}
			}
			_ = cmd.Wait()
			t.Logf("ended after %v: %v", time.Since(began), cmd.ProcessState)
			n.endWatch()
			<-returned
			_ = n.file.Close()
			if len(killed) > 0 {
				t.Error("reported an end that was none by SIGKILL, or one twice")
			}
		})
	}
}
