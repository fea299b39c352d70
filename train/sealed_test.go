package train

import (
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
)

// A job whose rows move by NCCL between hosts warns once that they are not encrypted.
func TestNCCLBetweenHostsIsSaid(t *testing.T) {
	for _, c := range []struct {
		secure   string
		machines string // of each rank, a letter
		warns    int
	}{{"auto", "aabb", 1}, {"auto", "aaaa", 0}, {"off", "aabb", 0}} {
		w := &warned{}
		cfg := config.Default()
		cfg.Job.Secure = c.secure
		j := newJob(env.Real(), cfg, Options{Observer: w, World: &World{Processes: 4,
			Machine: func(rank int) string { return c.machines[rank : rank+1] }}})
		j.ranks = 4
		j.warnIfUnsealed()
		j.warnIfUnsealed()
		if len(w.said) != c.warns || c.warns > 0 && !strings.Contains(w.said[0], "NCCL, which encrypts nothing") {
			t.Errorf("%+v: %q", c, w.said)
		}
	}
}
