package train

import (
	"testing"
	"time"
)

// simulatePace copies rows at the pace of a save. grow is how many bytes each step puts aside, of those that are not
// copied; a byte takes perByte. It returns the steps, the share of their time that copying took, the longest copy as a
// share of a step, and the most bytes that were aside.
func simulatePace(rows int64, step, within time.Duration, grow func(n int) int64, perByte time.Duration) (
	steps int, share, longest float64, most int64) {
	p := pace{bound: rows / 4}
	left, aside, copying := rows, int64(0), time.Duration(0)
	for left > 0 {
		steps++
		aside += min(grow(steps), left)
		n, _ := p.next(step, within-time.Duration(steps)*step, left, aside)
		took := time.Duration(n) * perByte
		p.spent(step, n, took)
		left, copying, most = left-n, copying+took, max(most, aside)
		if steps > 1 {
			longest = max(longest, float64(took)/float64(step))
		}
	}
	return steps, float64(copying) / float64(time.Duration(steps)*step), longest, most
}

// TestPace: copying takes its share of training, spread over the steps. Rows that are put aside meanwhile stay within
// their bound: the copy is as fast as that needs.
func TestPace(t *testing.T) {
	const rows, step, perByte = 1 << 30, 50 * time.Millisecond, time.Nanosecond
	none := func(int) int64 { return 0 }
	steps, share, longest, most := simulatePace(rows, step, time.Hour, none, perByte)
	if share > 1.01*copyShare || share < 0.9*copyShare || longest > 1.1*copyShare || most != 0 {
		t.Errorf("nothing written: %d steps, %.4f of their time, %.4f of one, %d aside", steps, share, longest, most)
	}
	if steps, share, _, _ := simulatePace(1<<20, 100*time.Microsecond, time.Hour, none, perByte); share > 1.1*copyShare {
		t.Errorf("short steps: %d steps, %.4f of their time", steps, share)
	}
	for _, c := range []struct{ within, most time.Duration }{{100 * time.Second, 101 * time.Second}, {time.Second, 54 * time.Second}} {
		steps, share, longest, _ := simulatePace(rows, step, c.within, none, perByte)
		if took := time.Duration(steps) * step; took > c.most || share > 1.01*hastyShare || longest > 1.1*hastyShare {
			t.Errorf("within %v: %v, %.4f of the steps' time, %.4f of one", c.within, took, share, longest)
		}
	}
	few := func(n int) int64 { return 4 << 20 / int64(n) }
	steps, share, longest, most = simulatePace(rows, step, time.Hour, few, perByte)
	if share > 1.01*copyShare || longest > 1.1*copyShare || most > rows/4 {
		t.Errorf("few rows written: %d steps, %.4f of their time, %.4f of one, %d aside", steps, share, longest, most)
	}
	many := func(int) int64 { return 4 << 20 } // the bound after 64 steps
	steps, share, longest, most = simulatePace(rows, step, time.Hour, many, perByte)
	if most > rows/4+4<<20 || steps > 66 || longest > 4*share {
		t.Errorf("many rows written: %d steps, %.4f of their time, %.4f of one, %d aside", steps, share, longest, most)
	}
	p := pace{bound: 100}
	if n, wait := p.next(step, time.Hour, 1000, 100); n != 1000 || !wait {
		t.Errorf("at the bound %d bytes are copied, waiting %v; want all", n, wait)
	}
}
