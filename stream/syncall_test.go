package stream

import (
	"errors"
	"testing"
)

// latePartition is acknowledged after some temporary errors.
type latePartition struct {
	Partition
	errs  []error
	calls int
}

func (p *latePartition) Sync() error {
	p.calls++
	if p.calls > len(p.errs) {
		return nil
	}
	return p.errs[p.calls-1]
}

// SyncAll tries again after temporary errors, a limited number of times, and ends with a final one, or with that of its caller.
func TestSyncAll(t *testing.T) {
	late, final, stopped := errors.New("late"), &Final{errors.New("final")}, errors.New("stopped")
	many := func(n int) (errs []error) {
		for range n {
			errs = append(errs, late)
		}
		return errs
	}
	for name, c := range map[string]struct {
		errs    []error
		stops   bool
		want    error
		calls   int
		reports int
	}{
		"at once":         {nil, false, nil, 1, 0},
		"some time later": {many(3), false, nil, 4, 3},
		"never":           {many(100), false, late, syncTries, syncTries - 1},
		"final":           {[]error{late, final}, false, final, 2, 1},
		"stopped":         {many(100), true, stopped, 1, 1},
	} {
		reports := 0
		report := func(why error) error {
			if reports++; why != late {
				t.Errorf("%s: reported %v", name, why)
			}
			if c.stops {
				return stopped
			}
			return nil
		}
		p := &latePartition{errs: c.errs}
		if err := SyncAll(p, report); err != c.want || p.calls != c.calls || reports != c.reports {
			t.Errorf("%s: %v after %d waits and %d reports, want %v, %d, %d", name, err, p.calls, reports, c.want, c.calls, c.reports)
		}
		p = &latePartition{errs: c.errs}
		if err := SyncAll(p, nil); !c.stops && (err != c.want || p.calls != c.calls) {
			t.Errorf("%s, without reports: %v after %d waits", name, err, p.calls)
		}
	}
}
