package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestOnlineKafka runs examples/online: the scores are of rising steps, also after the follower was ended and started again as it is
// printed.
func TestOnlineKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	dir := filepath.Join(t.TempDir(), "online")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../examples/online/run.sh", "--seconds", "40", "--dir", dir, "--port", strconv.Itoa(freePorts(3)))
	cmd.Env = append(os.Environ(), "ECREC="+ecrec(t), "KAFKA_HEAP=128m")
	cmd.WaitDelay = 10 * time.Second
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	defer r.Close()
	last, again := int64(-1), ""
	served := map[bool]int{} // after the second start of the follower, and before
	var second *exec.Cmd
	var out strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		fmt.Fprintln(&out, line)
		var pid int
		if _, err := fmt.Sscanf(line, " kill %d ends it", &pid); err == nil {
			_, command, _ := strings.Cut(line, "starts it again: ")
			again = fmt.Sprintf("kill %d; while kill -0 %d 2>/dev/null; do sleep 0.1; done; exec %s", pid, pid, command)
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		step := scoredStep(t, line)
		if step < last {
			t.Errorf("after step %d: %s", last, line)
		}
		if step > last {
			served[second != nil]++
		}
		if last = step; served[false] == 2 && second == nil {
			second = exec.Command("bash", "-c", again)
			if err := second.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = second.Process.Kill() // it may have ended
				_ = second.Wait()
			}()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if served[false] < 2 || served[true] < 2 {
		t.Errorf("%d steps were served, and %d after the second start:\n%s", served[false], served[true], &out)
	}
}

// scoredStep returns the step of a reply with one score.
func scoredStep(t *testing.T, line string) int64 {
	t.Helper()
	var reply struct {
		Step   int64
		Digest string
		Scores []float64
	}
	if err := json.Unmarshal([]byte(line), &reply); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if len(reply.Scores) != 1 || reply.Scores[0] <= 0 || reply.Scores[0] >= 1 || len(reply.Digest) != 32 {
		t.Errorf("not one score: %s", line)
	}
	return reply.Step
}
