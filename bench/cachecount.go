package bench

import (
	"slices"

	"github.com/ecrec/ecrec/oracle"
)

// cacheMode is a way to bring rows to the trainers and their gradients back.
//
// Every rank trains, and owns a share of the rows; what stays on a rank is no
// message. A message carries one row or one gradient. It is critical if it must
// travel between the computing of two steps.
//
//   - none: each trainer fetches each of its distinct rows from the owner and
//     pushes one gradient back, all on the critical path.
//   - replicated (BagPipe, section 4, as a baseline): every trainer has a copy of
//     every cached row. Rows are fetched by all trainers ahead of time; all distinct
//     rows of a batch are all-reduced after the step, all critical: H rows in a ring
//     of N ranks are 2H(N-1)/N row-sizes from each rank to the next. The owner, which
//     has a copy, writes back.
//   - partitioned (the paper's other baseline): every cached row has one home, one
//     of the trainers that first want it. The others fetch it from there at each use
//     and push a gradient back, all critical. The home fetches ahead and writes back
//     later.
//   - lrpp, all-reduced: what oracle.Window decides, with shared rows all-reduced
//     as in replicated; critical are those used again at the next step.
//   - lrpp, through owners: the same decisions, but trainers that have a gradient of
//     a shared row push it to the owner, which sends the new value to all others; not
//     of rows that leave, which nobody has a copy of after the step.
//   - planned: the messages of none, but a value is critical only if the row was
//     used at the step before, by anyone, and a gradient only if the row is used at
//     the next step.
//
// Where the owner applies every update, planned is the offline optimum, whatever
// the window and the capacity: each use changes the row, so that a trainer that
// reads it must be sent the value after the use before, and its gradient must come.
// Where updates may be applied anywhere, the bound is in optimum.
//
// In replicated and partitioned rows stay cached while a use is known in the
// window, in lrpp for their segments; no cache has a limit. Optimizer state moves
// with the rows where trainers update them: with all fetches and write-backs, but
// for shared rows of lrpp through owners, which the owner updates.
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

// modeCount is what one mode moves.
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

func (c *modeCount) send(from, to, path int) {
	if from != to {
		c.links[path][from*c.ranks+to]++
	}
}

// sendState sends a row with its optimizer state.
func (c *modeCount) sendState(from, to, path int) {
	if from != to {
		c.send(from, to, path)
		c.stateful[path]++
	}
}

// allReduce is a ring all-reduce of so many rows.
func (c *modeCount) allReduce(rows, path int) {
	n := c.ranks
	if n == 1 {
		return
	}
	for from := range n {
		c.links[path][from*n+(from+1)%n] += 2 * float64(rows*(n-1)) / float64(n)
	}
}

// add adds a share of another count.
func (c *modeCount) add(x *modeCount, share float64) {
	for p := range paths {
		c.rows[p] += share * x.rows[p]
		c.stateful[p] += share * x.stateful[p]
		for i, n := range x.links[p] {
			c.links[p][i] += share * n
		}
	}
}

// all is the messages of both paths.
func (c *modeCount) all() []float64 {
	all := slices.Clone(c.links[later])
	for i, n := range c.links[critical] {
		all[i] += n
	}
	return all
}

func (c *modeCount) sum(links []float64) (sum float64) {
	for _, n := range links {
		sum += n
	}
	return sum
}

// busiestRank is the messages into and out of the rank that has most.
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

// countCache counts steps of a stream. The caches fill during as many steps as the
// lookahead first, and every step counted is planned with all of it.
func countCache(s *cacheStream, c cacheSettings) (*cacheCounts, error) {
	begin, end := int64(c.lookahead), int64(c.lookahead+c.steps)
	owners := make([]*cacheOwner, s.ranks)
	for o := range owners {
		owners[o] = newCacheOwner(o, s.ranks, c.lookahead, begin, end)
	}
	failed := make([]error, s.ranks)
	for t := range end + int64(c.lookahead) + 1 {
		if err := s.step(t); err != nil {
			return nil, err
		}
		together(s.ranks, func(o int) { failed[o] = owners[o].feed(&s.owners[o]) })
		if i := slices.IndexFunc(failed, func(err error) bool { return err != nil }); i >= 0 {
			return nil, failed[i]
		}
	}
	sum := &cacheCounts{}
	share := 1 / float64(c.steps)
	for m := range sum.modes {
		sum.modes[m] = newModeCount(s.ranks)
		for _, o := range owners {
			sum.modes[m].add(&o.modes[m], share)
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

// wants is one step's list of an owner.
type wants struct {
	slots, start []int32
	by           []uint16
}

func (w *wants) copy(d *oracle.Decisions) {
	w.slots = append(w.slots[:0], d.Slots...)
	w.start = append(w.start[:0], d.Start...)
	w.by = append(w.by[:0], d.By...)
}

// cacheOwner counts what all modes move of one owner's rows.
type cacheOwner struct {
	self, ranks int
	begin, end  int64 // steps counted
	window      *oracle.Window
	single      *oracle.Window // as if all trainers were one: Algorithm 1 without classes
	d, one      oracle.Decisions
	upTo        []int32          // 0, 1, 2 ...: who wants what of single
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

// reset forgets what was counted while the caches filled.
func (o *cacheOwner) reset() {
	for m := range o.modes {
		o.modes[m] = newModeCount(o.ranks)
	}
	o.distinct = 0
	o.best.reset()
}

// feed tells of one more step and counts those that can be planned.
func (o *cacheOwner) feed(w *wantedRows) error {
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
		o.count()
	}
	return nil
}

// count counts the step just decided about, but for what depends on the step
// after it, which it counts of the step before.
func (o *cacheOwner) count() {
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
		o.best.use(slot, o.readers(i))
	}
}

// readers are the trainers that want row i.
func (o *cacheOwner) readers(i int) []uint16 { return o.d.By[o.d.Start[i]:o.d.Start[i+1]] }
