package bench

import (
	"slices"

	"github.com/ecrec/ecrec/oracle"
)

// cacheMode is a way to bring rows to the trainers and their gradients back.
//
// Every rank trains, and owns a share of the rows. A transfer within a rank is not a message. A
// message carries one row or one gradient. It is critical if it must be sent between the
// computations of two steps.
//
//   - none: each trainer fetches each of its distinct rows from the owner and
//     pushes one gradient back, all on the critical path.
//   - replicated (BagPipe, section 4, as a baseline): every trainer has a copy of
//     every cached row. Rows are fetched by all trainers ahead of time; all distinct
//     rows of a batch are all-reduced after the step, all critical: H rows in a ring
//     of N ranks are 2H(N-1)/N row-sizes from each rank to the next. The owner, which
//     has a copy, writes back.
//   - partitioned (the paper's other baseline): every cached row has one home, one of the trainers
//     that use it first. The others fetch it from the home at each use and push a gradient back,
//     all critical. The home fetches ahead and writes back later.
//   - lrpp, all-reduced: the decisions of oracle.Window, with shared rows all-reduced as in
//     replicated. The rows used again at the next step are critical.
//   - lrpp, through owners: the same decisions, but trainers that have a gradient of a shared row
//     push it to the owner, which sends the new value to all others. Rows that are evicted after
//     the step are not sent.
//   - planned: the messages of none, but a value is critical only if any trainer used the row at
//     the step before, and a gradient only if the row is used at the next step.
//
// If the owner applies every update, planned is the offline optimum for any window and capacity:
// each use changes the row, so a trainer that reads it must receive the value after the use
// before, and must send its gradient. If updates may be applied anywhere, the bound is optimum.
//
// In replicated and partitioned, rows stay cached while the window has a use of them; in lrpp, for
// their segments. No cache has a limit. If trainers update rows, optimizer state moves with all
// fetches and write-backs. The exception is the shared rows of lrpp through owners, which the
// owner updates.
type cacheMode int

const (
	noCache cacheMode = iota
	replicated
	partitioned
	lrppReduced
	lrppOwners
	planned
	cacheModes
)

func (m cacheMode) String() string {
	return [cacheModes]string{"none", "replicated", "partitioned", "lrpp, all-reduced", "lrpp, through owners", "planned"}[m]
}

const (
	later    = iota // overlapped with computing
	critical        // between two steps
	paths
)

func path(isCritical bool) int {
	if isCritical {
		return critical
	}
	return later
}

// modeCount counts the traffic of one mode.
type modeCount struct {
	ranks    int
	rows     [paths]float64   // distinct rows with a message, not counting fetches into a cache and write-backs
	links    [paths][]float64 // messages from rank i to rank j, at i*ranks + j
	stateful [paths]float64   // messages that carry optimizer state too
}

func newModeCount(ranks int) modeCount {
	c := modeCount{ranks: ranks}
	for p := range c.links {
		c.links[p] = make([]float64, ranks*ranks)
	}
	return c
}

func (c *modeCount) countSend(from, to, path int) {
	if from != to {
		c.links[path][from*c.ranks+to]++
	}
}

// sendState sends a row with its optimizer state.
func (c *modeCount) sendState(from, to, path int) {
	if from != to {
		c.countSend(from, to, path)
		c.stateful[path]++
	}
}

// allReduce counts a ring all-reduce of rows.
func (c *modeCount) allReduce(rows, path int) {
	n := c.ranks
	if n == 1 {
		return
	}
	for from := range n {
		c.links[path][from*n+(from+1)%n] += 2 * float64(rows*(n-1)) / float64(n)
	}
}

// addShare adds a share of another count.
func (c *modeCount) addShare(x *modeCount, share float64) {
	for p := range paths {
		c.rows[p] += share * x.rows[p]
		c.stateful[p] += share * x.stateful[p]
		for i, n := range x.links[p] {
			c.links[p][i] += share * n
		}
	}
}

// allMessages returns the messages of both paths.
func (c *modeCount) allMessages() []float64 {
	all := slices.Clone(c.links[later])
	for i, n := range c.links[critical] {
		all[i] += n
	}
	return all
}

func (c *modeCount) sumOf(links []float64) (sum float64) {
	for _, n := range links {
		sum += n
	}
	return sum
}

// busiestRank returns the messages into and out of the rank with the most.
func (c *modeCount) busiestRank(links []float64) (most float64) {
	for r := range c.ranks {
		both := 0.0
		for q := range c.ranks {
			both += links[r*c.ranks+q] + links[q*c.ranks+r]
		}
		most = max(most, both)
	}
	return most
}

func (c *modeCount) busiestLink(links []float64) float64 { return slices.Max(links) }

// cacheCounts are averages per step.
type cacheCounts struct {
	distinct float64 // rows per batch
	modes    [cacheModes]modeCount
	optimum  float64 // messages
	// The peaks of rows cached: by one trainer in mode lrpp, and by all together.
	peakTrainer, peakAll float64
}

// countCache counts steps of a stream. First the caches fill during as many steps as the lookahead.
// Every counted step is planned with the full lookahead.
func countCache(s *cacheStream, c cacheSettings) (*cacheCounts, error) {
	begin, end := int64(c.lookahead), int64(c.lookahead+c.steps)
	owners := make([]*cacheOwner, s.ranks)
	for o := range owners {
		owners[o] = newCacheOwner(o, s.ranks, c.lookahead, begin, end)
	}
	failed := make([]error, s.ranks)
	for t := range end + int64(c.lookahead) + 1 {
		if err := s.planStep(t); err != nil {
			return nil, err
		}
		together(s.ranks, func(o int) { failed[o] = owners[o].addStep(&s.owners[o]) })
		if i := slices.IndexFunc(failed, func(err error) bool { return err != nil }); i >= 0 {
			return nil, failed[i]
		}
	}
	sum := &cacheCounts{}
	share := 1 / float64(c.steps)
	for m := range sum.modes {
		sum.modes[m] = newModeCount(s.ranks)
		for _, o := range owners {
			sum.modes[m].addShare(&o.modes[m], share)
		}
	}
	for i := range c.steps {
		trainer, all := 0, 0
		for _, o := range owners {
			trainer += o.held[i][0]
			all += o.held[i][1]
		}
		sum.peakTrainer, sum.peakAll = max(sum.peakTrainer, float64(trainer)), max(sum.peakAll, float64(all))
	}
	for _, o := range owners {
		sum.distinct += share * float64(o.distinct)
		sum.optimum += share * o.best.messages()
	}
	return sum, nil
}

// wants holds the rows that the trainers need from an owner at one step.
type wants struct {
	slots, start []int32
	by           []uint16
}

func (w *wants) copy(d *oracle.Decisions) {
	w.slots = append(w.slots[:0], d.Slots...)
	w.start = append(w.start[:0], d.Start...)
	w.by = append(w.by[:0], d.By...)
}

// cacheOwner counts the traffic of one owner's rows in all modes.
type cacheOwner struct {
	self, ranks int
	begin, end  int64 // steps counted
	window      *oracle.Window
	single      *oracle.Window // as if all trainers were one: Algorithm 1 without classes
	d, one      oracle.Decisions
	upTo        []int32          // 0, 1, 2 ...: the lists of single, whose one trainer uses each row once
	home        map[int32]uint16 // of mode partitioned
	best        *optimum
	last, now   wants // of the last two steps decided about
	before      []bool
	after       []bool

	modes    [cacheModes]modeCount
	distinct int
	held     [][2]int // of each step counted: rows in one trainer's cache, in all
}

func newCacheOwner(self, ranks, lookahead int, begin, end int64) *cacheOwner {
	o := &cacheOwner{self: self, ranks: ranks, begin: begin, end: end, home: map[int32]uint16{},
		window: oracle.NewWindow(oracle.WindowOptions{Trainers: ranks, Self: self, Lookahead: lookahead}),
		single: oracle.NewWindow(oracle.WindowOptions{Trainers: 1, Lookahead: lookahead}),
		best:   newOptimum(self, ranks)}
	o.reset()
	return o
}

// reset clears the counts of the steps that filled the caches.
func (o *cacheOwner) reset() {
	for m := range o.modes {
		o.modes[m] = newModeCount(o.ranks)
	}
	o.distinct = 0
	o.best.reset()
}

// addStep adds one more step, and counts the steps that can be planned.
func (o *cacheOwner) addStep(w *wantedRows) error {
	n := len(w.merged.Slots)
	for len(o.upTo) <= n {
		o.upTo = append(o.upTo, int32(len(o.upTo)))
	}
	o.window.Add(w.merged.Slots, w.merged.Start, w.merged.Pos, w.perRank)
	o.single.Add(w.merged.Slots, o.upTo[:n+1], o.upTo[:n], []int{n})
	for o.window.Ready() {
		if err := o.window.Next(&o.d); err != nil {
			return err
		}
		if err := o.single.Next(&o.one); err != nil {
			return err
		}
		o.countStep()
	}
	return nil
}

// countStep counts the newest planned step. Modes that depend on the step after it are counted for the
// step before.
func (o *cacheOwner) countStep() {
	t := o.d.Step
	if t > o.end {
		return
	}
	o.countDirect()
	o.last, o.now = o.now, o.last
	o.now.copy(&o.d)
	if t == o.begin {
		o.reset()
	}
	if t == o.end {
		return
	}
	o.distinct += len(o.d.Slots)
	if t >= o.begin {
		o.held = append(o.held, [2]int{o.d.Held, o.one.Held})
	}
	o.countReplicated()
	o.countPartitioned()
	o.countLRPP()
	for i, slot := range o.d.Slots {
		o.best.addUse(slot, o.readers(i))
	}
}

// readers returns the trainers that use row i.
func (o *cacheOwner) readers(i int) []uint16 { return o.d.By[o.d.Start[i]:o.d.Start[i+1]] }
