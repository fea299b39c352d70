package bench

import (
	"io"
	"slices"
	"testing"
)

// Each job of increments has one in its timed part, and as many saves as intervals where training waits.
func TestTimedPartHasIncrements(t *testing.T) {
	r, err := incrementsBench.Run(io.Discard, Options{Tiny: true, Args: []string{"intervals=2", "ranks=2"}})
	if err != nil {
		t.Fatal(err)
	}
	value := func(name, system string) float64 {
		i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name && f.Case["system"] == system })
		if i < 0 {
			t.Fatalf("no figure %q of %q", name, system)
		}
		return r.Figures[i].Min
	}
	if n := value("saves", "increments, training waits"); n != 2 {
		t.Errorf("%g saves that training waits for, want 2", n)
	}
	for _, system := range []string{"increments beside training", "increments, training waits"} {
		if n := value("increments", system); n < 1 {
			t.Errorf("%s: %g increments", system, n)
		}
		if value("bytes of increments", system) <= 0 {
			t.Errorf("%s: increments without bytes", system)
		}
	}
	if value("saves", "full ones beside training") < 1 || value("increments", "full ones beside training") != 0 {
		t.Error("full checkpoints are increments, or there are none")
	}
}
