package bench

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/tier"
)

// tierTrace is the rows that each step of a run uses. Rows are numbered from 0 in the order of their slots, and
// rows that no step uses are left out.
type tierTrace struct {
	used        [][]int32 // of each step, ascending
	counts      []int32   // lookups of each row
	rows        int64     // of the model, used or not
	warm, steps int       // the steps before the counted ones, and the counted ones
	next        [][]int32 // of each use, the next step that uses the row, or the number of steps

	lookups, uses, firsts int64 // of the counted steps
}

// newTierTrace draws the steps of a stream, and some more that the policies see.
func newTierTrace(s *cacheStream, warm, steps, more int) (*tierTrace, error) {
	t := &tierTrace{rows: s.place.Rows(), warm: warm, steps: steps}
	counts := make([]int32, t.rows)
	for step := range int64(warm + steps + more) {
		if err := s.planStep(step); err != nil {
			return nil, err
		}
		p := &s.plans[0]
		slots := slices.Clone(p.Slots[:p.PerOwner[0]])
		t.used = append(t.used, slots)
		isCounted := t.isCounted(int(step))
		for u, slot := range slots {
			n := p.Start[u+1] - p.Start[u]
			if isCounted {
				t.uses, t.lookups = t.uses+1, t.lookups+int64(n)
				if counts[slot] == 0 {
					t.firsts++
				}
			}
			counts[slot] += n
		}
	}
	t.numberRows(counts)
	t.findNextUses()
	return t, nil
}

// numberRows replaces slots by numbers of rows. counts holds the lookups of each slot.
func (t *tierTrace) numberRows(counts []int32) {
	numbers := make([]int32, len(counts))
	for slot, n := range counts {
		if n > 0 {
			numbers[slot] = int32(len(t.counts))
			t.counts = append(t.counts, n)
		}
	}
	for _, slots := range t.used {
		for i, slot := range slots {
			slots[i] = numbers[slot]
		}
	}
}

func (t *tierTrace) isCounted(step int) bool { return step >= t.warm && step < t.warm+t.steps }

func (t *tierTrace) perStep(n int64) float64 { return float64(n) / float64(t.steps) }

// topShare returns the share of all lookups that the most popular rows have. top is a share of the rows of the model.
func (t *tierTrace) topShare(top float64) float64 {
	counts := slices.Clone(t.counts)
	slices.SortFunc(counts, func(a, b int32) int { return int(b - a) })
	sum, all := int64(0), int64(0)
	for i, n := range counts {
		all += int64(n)
		if float64(i) < top*float64(t.rows) {
			sum += int64(n)
		}
	}
	return float64(sum) / float64(all)
}

// tierCount counts one policy.
type tierCount struct {
	policy  string
	reads   int64 // in the counted steps, without first uses
	spilled int64 // dirty victims in the counted steps
	all     int64 // reads in all steps
	needed  int   // not 0: the frames that a step needs at least, which there are not
}

func (c *tierCount) addReads(n int, isCounted bool) {
	c.all += int64(n)
	if isCounted {
		c.reads += int64(n)
	}
}

// tierShare is the counts of all policies for one number of frames.
type tierShare struct {
	share  float64 // %
	frames int
	counts []tierCount
}

// countShare counts all policies, in the order in which their reads should fall.
func (t *tierTrace) countShare(share float64, frames int, lookaheads []int, every int) tierShare {
	s := tierShare{share: share, frames: frames}
	s.counts = append(s.counts, t.countLRU(frames))
	lookaheads = slices.Clone(lookaheads)
	slices.Sort(lookaheads)
	for _, l := range lookaheads {
		s.counts = append(s.counts, t.countPolicy(frames, l, every))
	}
	s.counts = append(s.counts, t.countOptimum(frames))
	return s
}

// countPolicy counts package tier. Every use writes its row, and the log holds an epoch's rows as soon as it ends.
func (t *tierTrace) countPolicy(frames, lookahead, every int) tierCount {
	c := tierCount{policy: fmt.Sprintf("lookahead %d", lookahead)}
	p, err := tier.New(tier.Options{Slots: len(t.counts), Frames: frames, Window: lookahead + 1})
	if err != nil {
		panic(err) // no row is pinned
	}
	var moves tier.Moves
	expected := 0
	for i, used := range t.used {
		for ; expected <= i+lookahead && expected < len(t.used); expected++ {
			p.Expect(int64(expected+1), t.used[expected])
		}
		step := int64(i + 1)
		var full *tier.CapacityError
		if err := p.Hold(step, &moves); errors.As(err, &full) {
			c.needed = full.Needed
			return c
		}
		c.addReads(len(moves.Read), t.isCounted(i))
		if t.isCounted(i) {
			c.spilled += int64(len(moves.Spill))
		}
		p.Wrote(step, used)
		p.Release(step)
		if step%int64(every) == 0 {
			p.Logged(step)
		}
	}
	return c
}

// countLRU counts LRU over batches: the victims are the rows whose last step is longest ago, in the order of slots.
func (t *tierTrace) countLRU(frames int) tierCount {
	return t.countKeys("LRU", frames, false, func(step, _ int) int { return step })
}

// countOptimum counts Belady's rule over batches: the victims are the rows whose next use is furthest. No policy reads
// fewer rows in all steps together.
func (t *tierTrace) countOptimum(frames int) tierCount {
	return t.countKeys("optimum", frames, true, func(step, u int) int { return int(t.next[step][u]) })
}

// findNextUses sets next.
func (t *tierTrace) findNextUses() {
	t.next = make([][]int32, len(t.used))
	later := slices.Repeat([]int32{int32(len(t.used))}, len(t.counts))
	for step := len(t.used) - 1; step >= 0; step-- {
		for _, row := range t.used[step] {
			t.next[step] = append(t.next[step], later[row])
			later[row] = int32(step)
		}
	}
}

// Keys of rows that are not resident.
const (
	neverUsed = -1 - iota
	wasEvicted
)

// countKeys counts a policy that gives each use a key. The victims are the rows whose last use has the greatest key, or the
// least one; never those of the step itself. Rows are in the list of their key; an entry is out of date if the row
// has another key by now.
func (t *tierTrace) countKeys(policy string, frames int, greatest bool, keyOf func(step, u int) int) tierCount {
	c := tierCount{policy: policy}
	lists := make([][]int32, len(t.used)+1)
	key := slices.Repeat([]int32{neverUsed}, len(t.counts))
	at, resident := 0, 0
	for step, used := range t.used {
		if len(used) > frames {
			c.needed = len(used)
			return c
		}
		reads := 0
		for u, row := range used {
			if key[row] < 0 {
				resident++
			}
			if key[row] == wasEvicted {
				reads++
			}
			key[row] = int32(keyOf(step, u))
		}
		c.addReads(reads, t.isCounted(step))
		for resident > frames {
			switch list := lists[at]; {
			case len(list) == 0 && greatest:
				at--
			case len(list) == 0:
				at++
			default:
				lists[at] = list[1:]
				if key[list[0]] == int32(at) {
					key[list[0]] = wasEvicted
					resident--
				}
			}
		}
		for _, row := range used {
			k := int(key[row])
			lists[k] = append(lists[k], row)
			if greatest {
				at = max(at, k)
			}
		}
	}
	return c
}
