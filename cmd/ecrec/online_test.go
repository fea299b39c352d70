package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestOnlineKafka runs examples/online: the scores are of rising steps.
func TestOnlineKafka(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	dir := filepath.Join(t.TempDir(), "online")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../examples/online/run.sh", "--seconds", "15", "--dir", dir, "--port", strconv.Itoa(freePorts(3)))
	cmd.Env = append(os.Environ(), "ECREC="+ecrec(t), "KAFKA_HEAP=128m")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	last, served := int64(-1), 0
	for _, line := range strings.Split(string(out), "\n") {
		var reply struct {
			Step   int64
			Digest string
			Scores []float64
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if reply.Step < last || len(reply.Scores) != 1 || reply.Scores[0] <= 0 || reply.Scores[0] >= 1 || len(reply.Digest) != 32 {
			t.Errorf("after step %d: %s", last, line)
		}
		if reply.Step > last {
			served++
		}
		last = reply.Step
	}
	if served < 2 {
		t.Errorf("%d steps were served:\n%s", served, out)
	}
}
