package config

import (
	"strings"
	"testing"

	"github.com/ecrec/ecrec/oracle"
)

// TestAllRanksCanHaveCaches: a config of as many ranks as there may be is one that can be planned, also with caches.
func TestAllRanksCanHaveCaches(t *testing.T) {
	doc := strings.Replace(base, "global_batch = 64", "global_batch = 8192", 1)
	c, err := Load(write(t, doc), []string{"job.ranks=4096", "cache.mode=lrpp"})
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Trainers(); n != maxRanks || n > oracle.MaxTrainers {
		t.Errorf("%d ranks train, and a window has at most %d", n, oracle.MaxTrainers)
	}
}
