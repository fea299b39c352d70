package lrpp

// cachePlan is what happens around one step with the rows that trainers cache,
// seen from one rank as trainer and as owner. Lists are in owner order at the
// trainer and in trainer order at the owner, as in Step.
type cachePlan struct {
	step int64
	// index is where in the cache the row of each lookup stands.
	index []int32
	// own are the rows that this trainer alone has and uses.
	own struct {
		start, pos []int32 // lookups of each
		cached     []int32
		before     []int64
	}
	now, later            reduction
	early, critical       transfer
	room, leaveNow, leave departure
	slots                 int // of the cache that are in use by now
	used                  usedRows
	trainers, first, rank int // as in PlanOptions; this rank
}

// usedRows are the rows that a trainer's slice reads, in the order of its Plan.
type usedRows struct {
	cached []int32
	rows   []rowKey
	before []int64
}

// transfer is whole rows, weights and state, that go from owners to trainers or
// back.
type transfer struct {
	cached   []int32 // trainer: where they stand in the cache
	rows     []rowKey
	perOwner []int   // trainer: how many of each owner
	slots    []int32 // owner: which
	perRank  []int   // owner: how many of each trainer

	// The step that updated each last, as of when it travels: of cached and of slots.
	// 0: not known.
	version, versionOf []int64
}

// departure is rows that leave the cache: each trainer drops its copies, and one
// of them sends the row back.
type departure struct {
	transfer
	dropped []int32
}

// reduction is the gradients of shared rows: trainers send theirs to the owners,
// who sum them in rank order and tell all trainers, who update their copies.
type reduction struct {
	// Trainer: the lookups of each row that it wants, as in oracle.Plan; how many go
	// to each owner; where all copies stand in the cache, how many of each owner.
	start, pos []int32
	perOwner   []int
	cached     []int32
	ofOwner    []int
	before     []int64 // of cached
	// Owner: how many gradients come from each rank, where those of each row stand
	// among them in rank order, and how many sums go to each rank.
	perRank          []int
	received         int
	sumStart, sumPos []int32
	toRank           []int
	sums             int

	rowOf []int32 // scratch: of each gradient that comes
}

func (t *transfer) reset(ranks int) {
	t.perOwner, t.perRank = resize(t.perOwner, ranks), resize(t.perRank, ranks)
	clear(t.perOwner)
	clear(t.perRank)
	t.cached, t.rows, t.slots = t.cached[:0], t.rows[:0], t.slots[:0]
	t.version, t.versionOf = t.version[:0], t.versionOf[:0]
}

func (r *reduction) reset(ranks int) {
	r.perOwner, r.ofOwner = resize(r.perOwner, ranks), resize(r.ofOwner, ranks)
	r.perRank, r.toRank = resize(r.perRank, ranks), resize(r.toRank, ranks)
	clear(r.perOwner)
	clear(r.ofOwner)
	clear(r.perRank)
	clear(r.toRank)
	r.start, r.pos, r.cached, r.before, r.rowOf = append(r.start[:0], 0), r.pos[:0], r.cached[:0], r.before[:0], r.rowOf[:0]
	r.received, r.sums = 0, 0
}

func (c *cachePlan) reset(ranks int) {
	for _, t := range []*transfer{&c.early, &c.critical, &c.room.transfer, &c.leaveNow.transfer, &c.leave.transfer} {
		t.reset(ranks)
	}
	for _, d := range []*departure{&c.room, &c.leaveNow, &c.leave} {
		d.dropped = d.dropped[:0]
	}
	c.now.reset(ranks)
	c.later.reset(ranks)
	c.own.start, c.own.pos, c.own.cached, c.own.before = append(c.own.start[:0], 0), c.own.pos[:0], c.own.cached[:0], c.own.before[:0]
	c.used.cached, c.used.rows, c.used.before = c.used.cached[:0], c.used.rows[:0], c.used.before[:0]
}

// writer is the trainer that writes the shared rows of the owner on a rank back, as
// oracle.Window.Writer says it.
func writer(rank, trainers int) int {
	if rank < trainers {
		return rank
	}
	return 0
}

// served lists what this rank does as owner, from the words that it told.
func (c *cachePlan) served(words []uint64, perRank []int) {
	for q, n := range perRank[:c.trainers] {
		c.serveTrainer(q, words[:n])
		words = words[n:]
	}
	c.now.order()
	c.later.order()
	for q := range c.trainers {
		c.now.toRank[q], c.later.toRank[q] = c.now.sums, c.later.sums
	}
}

// serveTrainer takes the words of one trainer. Those of shared rows are the same
// for all but who wants them.
func (c *cachePlan) serveTrainer(q int, words []uint64) {
	writesShared := q == writer(c.rank, c.trainers)
	c.now.sums, c.later.sums = 0, 0
	for _, x := range words {
		w := word(x)
		before := w.before(c.step)
		switch {
		case w.has(fetchedEarly):
			c.early.send(q, w.slot(), before)
		case w.has(fetchedCritical):
			c.critical.send(q, w.slot(), before)
		}
		if !w.has(ofAll) || writesShared {
			switch {
			case w.has(makesRoom):
				c.room.send(q, w.slot(), before)
			case w.has(leavesNow):
				c.leaveNow.send(q, w.slot(), c.step)
			case w.has(leavesLater):
				c.leave.send(q, w.slot(), c.step)
			}
		}
		if w.has(ofAll) && !w.has(makesRoom) {
			c.reductionOf(w).receive(q, w.has(wanted))
		}
	}
}

func (c *cachePlan) reductionOf(w word) *reduction {
	if w.has(syncedLater) {
		return &c.later
	}
	return &c.now
}

func (t *transfer) send(q int, slot int32, version int64) {
	t.slots = append(t.slots, slot)
	t.perRank[q]++
	t.versionOf = append(t.versionOf, version)
}

// receive notes the next row of trainer q.
func (r *reduction) receive(q int, comes bool) {
	if comes {
		r.rowOf = append(r.rowOf, int32(r.sums))
		r.perRank[q]++
		r.received++
	}
	r.sums++
}

// order lists the gradients of each row, in rank order.
func (r *reduction) order() {
	r.sumStart = resize(r.sumStart, r.sums+1)
	clear(r.sumStart)
	r.sumPos = resize(r.sumPos, r.received)
	for _, row := range r.rowOf {
		r.sumStart[row+1]++
	}
	for i := range r.sums {
		r.sumStart[i+1] += r.sumStart[i]
	}
	for i, row := range r.rowOf {
		r.sumPos[r.sumStart[row]] = int32(i)
		r.sumStart[row]++
	}
	copy(r.sumStart[1:], r.sumStart) // each has gone on to the start of the next
	r.sumStart[0] = 0
}
