package train

import (
	"strings"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
)

// If a machine hosts more ranks of a group than the group can spare, one warning names them.
// On one machine, or without a code, there is none.
func TestCrowdedMachines(t *testing.T) {
	for _, c := range []struct {
		machines string // a letter for each rank's
		code     []string
		want     string
	}{
		{"aabbc", []string{"ec.code=xor", "ec.k=4"}, "ranks 0, 1 are on one machine, and their group, ranks 0 to 4, can spare 1"},
		{"aabbc", []string{"ec.code=rs", "ec.k=3", "ec.r=2"}, ""},
		{"abcde", []string{"ec.code=xor", "ec.k=4"}, ""},
		{"aaaaa", []string{"ec.code=xor", "ec.k=4"}, ""},
		{"aabbc", nil, ""},
		{"aabcc", []string{"ranks.trainers=1", "ranks.servers=4", "ec.code=xor", "ec.k=3"},
			"ranks 3, 4 are on one machine, and their group, ranks 1 to 4, can spare 1"},
	} {
		cfg, err := config.Load(adagrad, append([]string{"job.out=" + t.TempDir(), "job.ranks=5"}, c.code...))
		if err != nil {
			t.Fatal(err)
		}
		w := &warned{}
		j := newJob(env.Real(), cfg, Options{Observer: w})
		j.world.Machine = func(rank int) string { return c.machines[rank : rank+1] }
		if err := j.open(); err != nil {
			t.Fatal(err)
		}
		j.warnIfCrowded()
		j.warnIfCrowded() // the same again is no news
		j.close()
		if said := strings.Join(w.said, "\n"); (c.want == "") != (said == "") || strings.Count(said, c.want) > 1 &&
			c.want != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s, %v: said %q, want %q", c.machines, c.code, said, c.want)
		}
	}
}
