package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// TestRemoveLeftovers: parts of checkpoints are removed under a lock only. Where there are no locks another run may be saving.
func TestRemoveLeftovers(t *testing.T) {
	dir := t.TempDir()
	part, saved := filepath.Join(dir, "step-000000000025.tmp-12345678-saving"), filepath.Join(dir, "step-000000000020")
	for _, path := range []string{part, saved} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e := env.Real()
	held, err := Hold(e, dir, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, c := range []struct {
		lock *Lock
		left bool
	}{{&Lock{dir: dir}, true}, {nil, true}, {held, false}} {
		if err := c.lock.RemoveLeftovers(e); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(part); (err == nil) != c.left {
			t.Errorf("held %t: the part is left: %t, want %t", c.lock.Holds(), err == nil, c.left)
		}
	}
	if _, err := os.Stat(saved); err != nil {
		t.Error(err)
	}
}
