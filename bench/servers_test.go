package bench

import (
	"strings"
	"testing"
)

// A job with checkpoints has one as often as store.tier has a commit.
func TestStoresSaveAsOften(t *testing.T) {
	o, err := serversBench.options(Options{Args: []string{"steps=64", "saves=16"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &serversRun{o: o, dir: "d"}
	every := func(store, key string, trainers int) string {
		for _, s := range b.settings(storeJob{store: store, trainers: trainers}) {
			if x, ok := strings.CutPrefix(s, key+"="); ok {
				return x
			}
		}
		return ""
	}
	for trainers, want := range map[int]string{1: "4", 2: "2", 4: "1"} {
		for _, x := range []struct{ store, key string }{{"dram-ps", "checkpoint.every"}, {"inline-lru", "checkpoint.every"}, {"tier", "ec.commit_every"}} {
			if got := every(x.store, x.key, trainers); got != want {
				t.Errorf("%s, %d trainers: %s is %q, want %s", x.store, trainers, x.key, got, want)
			}
		}
	}
	b.o, err = serversBench.options(Options{})
	if got := every("tier", "ec.commit_every", 1); err != nil || got != "10" {
		t.Errorf("without saves tier commits every %q steps, %v", got, err)
	}
}
