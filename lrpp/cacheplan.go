package lrpp

// cachePlan lists what happens to cached rows around one step, from the view of one rank
// as trainer and as owner. Lists are in owner order at the trainer and in trainer order
// at the owner, as in Step.
type cachePlan struct {
	step int64
	// index is the cache slot of the row of each lookup.
	index []int32
	// own lists the exclusive rows of this trainer that the step uses.
	own struct {
		start, pos []int32 // cells of the lookups of each
		factors    []float32
		cached     []int32
		before     []int64
	}
	now, later                         reduction
	early, critical                    transfer
	evictForRoom, evictNow, evictLater eviction
	slots                              int // number of cache slots in use so far
	used                               usedRows
	trainers, first, rank              int // trainers and first as in PlanOptions; rank is this rank
}

// usedRows are the rows that a trainer's slice reads, in the order of its Plan.
type usedRows struct {
	cached []int32
	rows   []rowKey
	before []int64
}

// transfer lists full rows, weights and optimizer state, sent from owners to trainers or
// back.
type transfer struct {
	cached   []int32 // trainer: their cache slots
	rows     []rowKey
	perOwner []int   // trainer: number of rows of each owner
	slots    []int32 // owner: their slots in the shard
	perRank  []int   // owner: number of rows of each trainer

	// The last step that updated each row by the time it is sent: of cached and of slots.
	// Zero means unknown.
	version, versionOf []int64
}

// eviction lists rows that leave the cache. Each trainer drops its copies, and one of
// them writes the row back.
type eviction struct {
	transfer
	dropped []int32
}

// reduction lists the gradients of shared rows. Trainers send theirs to the owners. The
// owners sum them in rank order and send the sums to all trainers, which update their
// copies.
type reduction struct {
	// Trainer: the cells of the lookups of each shared row that it uses and their weights,
	// as in oracle.Plan, and the number of gradients for each owner. The cache slots of all
	// copies, and the number of copies of each owner's rows.
	start, pos []int32
	factors    []float32
	perOwner   []int
	cached     []int32
	ofOwner    []int
	before     []int64 // of cached
	// Owner: the number of gradients from each rank, the positions of each row's
	// gradients among them in rank order, and the number of sums for each rank.
	perRank          []int
	received         int
	sumStart, sumPos []int32
	toRank           []int
	sums             int

	rowOf []int32 // scratch: the row of each received gradient
}

func (t *transfer) resetLists(ranks int) {
	t.perOwner, t.perRank = resize(t.perOwner, ranks), resize(t.perRank, ranks)
	clear(t.perOwner)
	clear(t.perRank)
	t.cached, t.rows, t.slots = t.cached[:0], t.rows[:0], t.slots[:0]
	t.version, t.versionOf = t.version[:0], t.versionOf[:0]
}

func (r *reduction) resetLists(ranks int) {
	r.perOwner, r.ofOwner = resize(r.perOwner, ranks), resize(r.ofOwner, ranks)
	r.perRank, r.toRank = resize(r.perRank, ranks), resize(r.toRank, ranks)
	clear(r.perOwner)
	clear(r.ofOwner)
	clear(r.perRank)
	clear(r.toRank)
	r.start, r.pos, r.cached, r.before, r.rowOf = append(r.start[:0], 0), r.pos[:0], r.cached[:0], r.before[:0], r.rowOf[:0]
	r.factors = r.factors[:0]
	r.received, r.sums = 0, 0
}

func (c *cachePlan) resetLists(ranks int) {
	for _, t := range []*transfer{&c.early, &c.critical, &c.evictForRoom.transfer, &c.evictNow.transfer, &c.evictLater.transfer} {
		t.resetLists(ranks)
	}
	for _, d := range []*eviction{&c.evictForRoom, &c.evictNow, &c.evictLater} {
		d.dropped = d.dropped[:0]
	}
	c.now.resetLists(ranks)
	c.later.resetLists(ranks)
	c.own.start, c.own.pos, c.own.cached, c.own.before = append(c.own.start[:0], 0), c.own.pos[:0], c.own.cached[:0], c.own.before[:0]
	c.own.factors = c.own.factors[:0]
	c.used.cached, c.used.rows, c.used.before = c.used.cached[:0], c.used.rows[:0], c.used.before[:0]
}

// writer returns the trainer that writes back the shared rows of the owner on a rank. It
// agrees with oracle.Window.Writer.
func writer(rank, trainers int) int {
	if rank < trainers {
		return rank
	}
	return 0
}

// listOwnerSide derives this rank's lists as owner from the row operations that it sent.
func (c *cachePlan) listOwnerSide(words []uint64, perRank []int) {
	for q, n := range perRank[:c.trainers] {
		c.addTrainerOps(q, words[:n])
		words = words[n:]
	}
	c.now.orderGradients()
	c.later.orderGradients()
	for q := range c.trainers {
		c.now.toRank[q], c.later.toRank[q] = c.now.sums, c.later.sums
	}
}

// addTrainerOps adds the row operations of one trainer. For shared rows they are the same
// for all trainers, except for opUsed.
func (c *cachePlan) addTrainerOps(q int, words []uint64) {
	writesShared := q == writer(c.rank, c.trainers)
	c.now.sums, c.later.sums = 0, 0
	for _, x := range words {
		w := rowOp(x)
		before := w.lastUse(c.step)
		switch {
		case w.has(opFetchEarly):
			c.early.addSend(q, w.slot(), before)
		case w.has(opFetchCritical):
			c.critical.addSend(q, w.slot(), before)
		}
		if !w.has(opShared) || writesShared {
			switch {
			case w.has(opEvictForRoom):
				c.evictForRoom.addSend(q, w.slot(), before)
			case w.has(opEvictNow):
				c.evictNow.addSend(q, w.slot(), c.step)
			case w.has(opEvictLater):
				c.evictLater.addSend(q, w.slot(), c.step)
			}
		}
		if w.has(opShared) && !w.has(opEvictForRoom) {
			c.reductionOf(w).addGradient(q, w.has(opUsed))
		}
	}
}

func (c *cachePlan) reductionOf(w rowOp) *reduction {
	if w.has(opSyncLater) {
		return &c.later
	}
	return &c.now
}

func (t *transfer) addSend(q int, slot int32, version int64) {
	t.slots = append(t.slots, slot)
	t.perRank[q]++
	t.versionOf = append(t.versionOf, version)
}

// addGradient adds the next shared row of trainer q, with a gradient if sent is true.
func (r *reduction) addGradient(q int, sent bool) {
	if sent {
		r.rowOf = append(r.rowOf, int32(r.sums))
		r.perRank[q]++
		r.received++
	}
	r.sums++
}

// orderGradients lists the gradients of each row in rank order.
func (r *reduction) orderGradients() {
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
	copy(r.sumStart[1:], r.sumStart) // each entry has advanced to the start of the next row
	r.sumStart[0] = 0
}
