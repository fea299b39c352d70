package cli

import (
	"os/exec"
	"testing"
	"time"
)

// The doctor does not wait for a process that cannot end, or for one that prints nothing.
func TestReportOfAProcess(t *testing.T) {
	for script, want := range map[string]bool{
		`echo '{"host": "n1", "healthy": true}'`:                  true,
		`echo '{"host": "n1", "healthy": true}'; exec sleep 1000`: true,
		`echo '{"host": "n1"'; exec sleep 1000`:                   false,
		`kill -9 $$`:                                              false,
	} {
		limit := time.Minute
		if !want {
			limit = 100 * time.Millisecond
		}
		start := time.Now()
		cmd := exec.Command("sh", "-c", script)
		r, err := reportOf(cmd, limit)
		_ = cmd.Process.Kill()
		if (err == nil) != want || want && r.Host != "n1" {
			t.Errorf("%s: %+v, %v", script, r, err)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s: took %v", script, d)
		}
	}
}
