package probe

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// Each point has a name of its own and a line of doc, and each stage of the training
// goroutine ends at exactly one point.
func TestTable(t *testing.T) {
	seen, ends := map[string]bool{}, map[Stage]int{}
	for _, p := range append(All(), Steady) {
		if p.String() == "" || p.Doc() == "" || seen[p.String()] || Named(p.String()) != p {
			t.Errorf("point %d: name %q, doc %q, Named gives %d", p, p, p.Doc(), Named(p.String()))
		}
		seen[p.String()] = true
		ends[table[p].ends]++
	}
	for s := StageWait; s <= StageUpdate; s++ {
		if ends[s] != 1 {
			t.Errorf("stage %v ends at %d points", s, ends[s])
		}
	}
	if All()[0] != Step || slices.Contains(All(), Steady) || Named("nowhere") != 0 || Named("") != 0 {
		t.Error("All begins with Step and lacks Steady; a name that is not in the table has no point")
	}
}

func TestReach(t *testing.T) {
	e := env.Real()
	fault := errors.New("fault")
	var reached []Point
	p := New(e, nil, func(step int64, at Point) error {
		reached = append(reached, at)
		if step == 2 {
			return fault
		}
		return nil
	})
	p.BeginStep()
	time.Sleep(2 * time.Millisecond)
	if err := p.Reach(1, Status); err != nil || p.Spent() != [Stages]time.Duration{} {
		t.Errorf("no stage ends at %v: %v, %v", Status, p.Spent(), err)
	}
	if err := p.Reach(1, Fetch); err != nil || p.Spent()[StageFetch] < 2*time.Millisecond {
		t.Errorf("%v, %v; want 2 ms of %v", p.Spent(), err, StageFetch)
	}
	p.Book(StagePlan, time.Second)
	if p.Spent()[StagePlan] != time.Second {
		t.Errorf("%v of %v", p.Spent()[StagePlan], StagePlan)
	}
	if err := p.Reach(2, Push); !errors.Is(err, fault) {
		t.Errorf("%v, want the injected fault", err)
	}
	if want := []Point{Status, Fetch, Push}; !slices.Equal(reached, want) {
		t.Errorf("reached %v, want %v", reached, want)
	}
	p.BeginStep()
	if p.Spent() != [Stages]time.Duration{} {
		t.Errorf("a new step begins with %v", p.Spent())
	}
	if err := New(e, nil, nil).Reach(2, Push); err != nil {
		t.Error(err)
	}
}
