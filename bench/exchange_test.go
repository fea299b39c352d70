package bench

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/bench/baseline"
)

// The exchanges that run move as many rows as bench cache counts for the same ids: the cache modes, and the caches of BagPipe's baselines.
func TestExchangesMoveWhatIsCounted(t *testing.T) {
	o := Options{Args: []string{"batch=96", "ranks=3", "steps=6", "warmup=1", "lookahead=3", "compute=1ms", "stream=independent"}, Tiny: true}
	o, err := exchangeBench.options(o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := o.exchangeSettings()
	if err != nil {
		t.Fatal(err)
	}
	d, err := drawExchangeData(c, c.seed)
	if err != nil {
		t.Fatal(err)
	}
	streams := make([]*baseline.Stream, c.ranks) // trainers draw at once, and a stream has one list
	for r := range streams {
		streams[r] = d.idsOf()
	}
	draw := func(step int64, trainer int, list []uint32) ([]uint32, error) {
		ids := streams[trainer]
		return append(list[:0], ids.IDs(min(int(step), ids.Steps-1), trainer)...), nil // beyond the end nothing is counted
	}
	// The first steps are those of the lookahead.
	first := c.warmup + c.lookahead
	s := newCacheStream(d.tables, c.ranks, func(step int64, trainer int, list []uint32) ([]uint32, error) {
		return draw(step+int64(first-c.lookahead), trainer, list)
	})
	counted, err := countCache(s, cacheSettings{trainers: c.ranks, lookahead: c.lookahead, steps: c.steps})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"none", "planned"} {
		x, _, err := measureExchange(c, name, d)
		if err != nil {
			t.Fatal(err)
		}
		mode := map[string]cacheMode{"none": noCache, "planned": planned}[name]
		want := counted.modes[mode].sumOf(counted.modes[mode].links[later]) + counted.modes[mode].sumOf(counted.modes[mode].links[critical])
		if got := float64(x.Total.Critical.Rows + x.Total.Delayed.Rows); got < want-1 || got > want+1 { // means, rounded down
			t.Errorf("%s: %v rows moved, %v counted", name, got, want)
		}
	}
	x, _, err := measureExchange(c, "replicated", d)
	if err != nil {
		t.Fatal(err)
	}
	if want := counted.modes[replicated].sumOf(counted.modes[replicated].links[critical]); float64(x.Total.Critical.Rows) < want*0.99 ||
		float64(x.Total.Critical.Rows) > want*1.01 { // owners of segments of an all-reduce have parts of rows
		t.Errorf("replicated: %d critical rows moved, %v counted", x.Total.Critical.Rows, want)
	}
}

// Virtual times do not depend on the run; the real clock gives the same traffic.
func TestExchangeClocks(t *testing.T) {
	var steps []float64
	var rows []float64
	for _, clock := range []string{"virtual", "virtual", "real"} {
		r, err := exchangeBench.Run(io.Discard, Options{Tiny: true, Args: []string{"system=pooled,planned", "clock=" + clock}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Evidence{"virtual": Virtual, "real": Simulated}[clock]
		for _, f := range r.Figures {
			if f.Case["system"] != "pooled" {
				continue
			}
			switch f.Name {
			case "step":
				steps = append(steps, f.Median)
				if f.Evidence != want {
					t.Errorf("a time on the %s clock is %s", clock, f.Evidence)
				}
			case "rows":
				rows = append(rows, f.Median)
			}
		}
	}
	if len(steps) != 3 || steps[0] != steps[1] {
		t.Errorf("steps of %v ms on the virtual clock, twice, and on the real one", steps)
	}
	if rows[0] != rows[1] || rows[0] != rows[2] || rows[0] == 0 {
		t.Errorf("rows %v", rows)
	}
}

// Each value of the setting stream can be measured.
func TestStreamsOfExchange(t *testing.T) {
	for _, stream := range streamNames() {
		if _, err := exchangeBench.Run(io.Discard, Options{Tiny: true, Args: []string{"system=pooled", "stream=" + stream}}); err != nil {
			t.Errorf("stream=%s: %v", stream, err)
		}
	}
}

func TestBadSettingsOfExchangeAreNamed(t *testing.T) {
	for _, arg := range []string{"system=pooled,x", "model=x", "tables=x", "stream=x", "link=10", "link=", "compute=x", "clock=x", "hot=101",
		"hot=0.1x", "parse=x", "batch=2"} {
		_, err := exchangeBench.Run(io.Discard, Options{Tiny: true, Args: []string{arg}})
		if key, _, _ := strings.Cut(arg, "="); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
