package plan

import (
	"fmt"
	"math"
	"slices"
)

// A use is a word: the owner, the slot at the owner, and the trainer. Ascending words are the order
// of owners, slots and trainers.
const (
	trainerBits = 16
	slotBits    = 31
	mostRanks   = 1 << trainerBits
)

// uses are those of a step.
type uses struct {
	words []uint64 // ascending, each once
	rows  []uint64 // the words without trainers, each once
}

// Counter counts the traffic of consecutive steps. For each step, AddSlice is called for each trainer
// that has samples, and then EndStep.
type Counter struct {
	// Ranks are the sums over Steps counted steps.
	Ranks []Rank
	Steps int
	// Epochs counts the epochs in Ranks. The last one may be short: EpochSteps is the steps of all.
	Epochs, EpochSteps int

	job       Job
	fromFirst bool
	weight    int64 // the number of trainers in place of which each one is read
	prev, cur *uses
	idle      *uses // memory
	next      *uses // being filled
	lookups   []int64
	pending   []int64 // lookups of cur
	epoch     []uint64
	inEpoch   int
	pairs     []pair // of each trainer with one owner
}

// pair counts the uses of one trainer and one owner in a step.
type pair struct{ all, late, now int64 }

// NewCounter returns a counter of a job. With fromFirst it counts from the first step, as a run
// begins: it waits for all rows there. Without it, the first step is only the neighbour of the second.
func NewCounter(j Job, fromFirst bool) (*Counter, error) {
	if j.Ranks > mostRanks || j.Place.Slots(0) > 1<<slotBits-1 {
		return nil, fmt.Errorf("plan: %d ranks that own %d rows each; at most %d ranks and %d rows work", j.Ranks, j.Place.Slots(0), mostRanks,
			math.MaxInt32)
	}
	return &Counter{Ranks: make([]Rank, j.Ranks), job: j, fromFirst: fromFirst, weight: 1, next: &uses{}, lookups: make([]int64, j.Trainers),
		pairs: make([]pair, j.Trainers)}, nil
}

// AddSlice adds the lookups of a trainer's slice: the global number of the row of each.
func (c *Counter) AddSlice(trainer int, rows []int64) {
	owners := uint64(c.job.Place.Owners)
	for _, g := range rows {
		owner, slot := uint64(g)%owners, uint64(g)/owners
		c.next.words = append(c.next.words, (owner<<slotBits|slot)<<trainerBits|uint64(trainer))
	}
	c.lookups[trainer] += int64(len(rows))
}

// EndStep ends a step, and counts the one before.
func (c *Counter) EndStep() {
	n := c.next
	slices.Sort(n.words)
	n.words = slices.Compact(n.words)
	n.rows = n.rows[:0]
	for _, w := range n.words {
		if row := w >> trainerBits; len(n.rows) == 0 || n.rows[len(n.rows)-1] != row {
			n.rows = append(n.rows, row)
		}
	}
	if c.cur != nil {
		c.countStep(n)
	}
	if c.idle = c.prev; c.idle == nil {
		c.idle = &uses{}
	}
	c.prev, c.cur = c.cur, n
	c.next = c.idle
	c.next.words = c.next.words[:0]
	c.pending, c.lookups = c.lookups, resized(c.pending, c.job.Trainers)
}

// Finish counts the last step, as that of a run: no step reads its rows. It ends the epoch.
func (c *Counter) Finish() {
	if c.cur != nil {
		c.countStep(nil)
	}
	c.endEpoch()
}

// Stop ends the counts without the last step, whose next one is not there.
func (c *Counter) Stop() { c.endEpoch() }

// countStep counts the current step, before the one of next.
func (c *Counter) countStep(next *uses) {
	if c.prev == nil && !c.fromFirst {
		return
	}
	for t, n := range c.pending {
		c.Ranks[t].Lookups += c.weight * n
	}
	var before, after []uint64
	if c.prev != nil {
		before = c.prev.rows
	}
	if next != nil {
		after = next.rows
	}
	c.countUses(before, after)
	c.countFixed()
	c.Steps++
	if !c.job.Commits {
		return
	}
	c.epoch = append(c.epoch, c.cur.rows...)
	if c.inEpoch++; c.inEpoch == c.job.CommitEvery {
		c.endEpoch()
	}
}

// countUses counts the rows and gradients of the current step. before and after are the rows of its
// neighbours.
func (c *Counter) countUses(before, after []uint64) {
	j, words := &c.job, c.cur.words
	for at := 0; at < len(words); {
		owner := words[at] >> (trainerBits + slotBits)
		clear(c.pairs)
		o := &c.Ranks[j.First+int(owner)]
		for at < len(words) && words[at]>>(trainerBits+slotBits) == owner {
			row := words[at] >> trainerBits
			late, now := true, true
			if j.Split && !j.AllRows {
				before, late = advance(before, row)
				late = late || c.prev == nil // there was no step while they could be sent
				after, now = advance(after, row)
				now = now || !j.DelayedSync
			}
			o.Updated += c.weight
			if now {
				o.UpdatedNow += c.weight
			}
			for ; at < len(words) && words[at]>>trainerBits == row; at++ {
				p := &c.pairs[words[at]&(1<<trainerBits-1)]
				p.all++
				if late {
					p.late++
				}
				if now {
					p.now++
				}
			}
		}
		c.countOwner(j.First + int(owner))
	}
}

// advance moves a list to the first entry that is not below row, and reports whether that is row.
func advance(list []uint64, row uint64) ([]uint64, bool) {
	for len(list) > 0 && list[0] < row {
		list = list[1:]
	}
	return list, len(list) > 0 && list[0] == row
}

// countOwner counts the messages of an owner's rows.
func (c *Counter) countOwner(owner int) {
	row := int64(4 * c.job.Width)
	o := &c.Ranks[owner]
	for q, p := range c.pairs {
		if p.all == 0 {
			continue
		}
		c.Ranks[q].Rows += c.weight * p.all
		w := c.weight
		o.Served, o.ServedLate = o.Served+w*p.all, o.ServedLate+w*p.late
		o.Summed, o.SummedNow = o.Summed+w*p.all, o.SummedNow+w*p.now
		c.send(q, owner, Lists, 4*p.all)
		if c.job.Split {
			c.send(owner, q, Lists, p.all) // whether they are late
		}
		c.send(owner, q, LateRows, row*p.late)
		c.send(owner, q, EarlyRows, row*(p.all-p.late))
		c.send(q, owner, Gradients, row*p.now)
		c.send(q, owner, LaterGrads, row*(p.all-p.now))
	}
}

// send counts a message from one rank to another, for all trainers in place of which one is read.
func (c *Counter) send(from, to int, class Class, bytes int64) {
	if from == to || bytes == 0 { // an empty part is not sent
		return
	}
	t := Traffic{c.weight, c.weight * bytes}
	c.Ranks[from].Sent[class].Add(t)
	c.Ranks[to].Received[class].Add(t)
}

func resized[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}
