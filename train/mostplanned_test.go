package train

import (
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/oracle"
)

// TestLookaheadOfManyRows: a job looks no further ahead than the plans of an owner have numbers for its rows.
func TestLookaheadOfManyRows(t *testing.T) {
	cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "job.ranks=2", "cache.mode=lrpp"})
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(env.Real(), cfg, Options{Observer: &quiet{}})
	if err := j.open(); err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if n := mostPlanned(j); n != oracle.MaxLookahead {
		t.Errorf("a small job can look %d steps ahead, want %d", n, oracle.MaxLookahead)
	}
	for i := range j.schema.Tables {
		j.schema.Tables[i] = 1 << 30
	}
	j.order.Batch = 1 << 20
	slots := j.place.Slots(0)
	if got, want := mostPlanned(j), int64(oracle.MostLookahead(slots)); got != want {
		t.Errorf("steps that use all %d rows of an owner: %d steps ahead, want %d", slots, got, want)
	}
	j.place = placement.New(j.schema.Tables, 2)
	rows := int64(len(j.schema.Tables)) << 20 / 2
	if got, want := mostPlanned(j), int64(oracle.MostLookahead(rows+rows/8)); got != want || want > 50 {
		t.Errorf("steps of %d rows of an owner: %d steps ahead, want %d", rows, got, want)
	}
	if got := j.mostLookahead(); got > mostPlanned(j) {
		t.Errorf("the job looks %d steps ahead, and its plans hold %d", got, mostPlanned(j))
	}
}
