package train

import (
	"testing"
	"time"
)

// simulatePace copies rows at the pace of a save. grow is how many bytes each step puts aside, of those that are not
// copied; a byte takes perByte. It returns the steps, the share of their time that copying took, the longest copy as a
// share of a step, and the most bytes that were aside.
func simulatePace(rows int64, step time.Duration, grow func(n int) int64, perByte time.Duration) (
	steps int, share, longest float64, most int64) {
	p := pace{bound: rows / 4}
	left, aside, copying := rows, int64(0), time.Duration(0)
	for left > 0 {
		steps++
		aside += min(grow(steps), left)
		n, _ := p.next(step, left, aside)
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
	steps, share, longest, most := simulatePace(rows, step, none, perByte)
	if share > 1.01*copyShare || share < 0.9*copyShare || longest > 1.1*copyShare || most != 0 {
		t.Errorf("nothing written: %d steps, %.4f of their time, %.4f of one, %d aside", steps, share, longest, most)
	}
	if steps, share, _, _ := simulatePace(1<<20, 100*time.Microsecond, none, perByte); share > 1.1*copyShare {
		t.Errorf("short steps: %d steps, %.4f of their time", steps, share)
	}
	few := func(n int) int64 { return 4 << 20 / int64(n) }
	steps, share, longest, most = simulatePace(rows, step, few, perByte)
	if share > 1.01*copyShare || longest > 1.1*copyShare || most > rows/4 {
		t.Errorf("few rows written: %d steps, %.4f of their time, %.4f of one, %d aside", steps, share, longest, most)
	}
	many := func(int) int64 { return 4 << 20 } // the bound after 64 steps
	steps, share, longest, most = simulatePace(rows, step, many, perByte)
	if most > rows/4+4<<20 || steps > 66 || longest > 4*share {
		t.Errorf("many rows written: %d steps, %.4f of their time, %.4f of one, %d aside", steps, share, longest, most)
	}
	p := pace{bound: 100}
	if n, wait := p.next(step, 1000, 100); n != 1000 || !wait {
		t.Errorf("at the bound %d bytes are copied, waiting %v; want all", n, wait)
	}
}
