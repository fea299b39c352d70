package train

import (
	"math"
	"slices"
	"time"

	"github.com/ecrec/ecrec/config"
)

const (
	// keptShare is the share of its undisturbed throughput that training keeps while rows are rebuilt: 95 %, and a margin for
	// noise and for the amounts that turn out too large.
	keptShare = 0.955
	// groupSteps is the steps of which one, drawn at random, rebuilds nothing except rows that are about to be read: it shows the time of
	// an undisturbed step. windowGroups groups make a window, after which the amount changes.
	groupSteps, windowGroups = 4, 4
	// allowedShare is by how much a step with a rebuild may be longer, so that all steps together keep keptShare.
	allowedShare = (1/keptShare - 1) * groupSteps / (groupSteps - 1)
	// mostGrowth and mostFall bound the change of the amount after a window. At the ramp, until a window has cost more than is allowed or the
	// amount does not grow, a window is one group, and rampGrowth bounds the growth. The amount may always grow by safeGrowth while its
	// rounds would take less than the allowed share.
	mostGrowth, mostFall, safeGrowth, rampGrowth = 1.5, 8, 4, 2
	// hiddenShare bounds how much less than its rounds a rebuild is taken to cost: rounds run beside the compute of a step, and take
	// hiddenShare*allowedShare, about as long as that, before they are noticed.
	hiddenShare = 12
	// steady is the growth of an amount that has reached its limit.
	steady = 1.1
	// fading is the weight of all windows before the last one.
	fading = 0.6
	// startRate is the rate of the first steps, in bytes per second of the allowed share of a step.
	startRate = 32 << 20
	// leastRebuilt is the rows and parities that a step rebuilds at least, so that each rebuild ends.
	leastRebuilt = 64
	// mostRebuilt bounds the bytes of one step at a controlled rate.
	mostRebuilt = 256 << 20
	// longestBurst bounds the time that a fixed rate makes up for after a stall.
	longestBurst = time.Second
)

// rebuildPace decides how many bytes of lost rows and parities each rank rebuilds beside each step. All ranks decide the same
// from the same reports, so that they do the same rounds. It is pure: no clock, no I/O. Products that are added are rounded first
// (float64 of a product): a compiler for another CPU could else fuse the two operations, and ranks on it decide differently.
//
// A fixed rate rebuilds the bytes that are due for the time of the step before. The automatic rate compares the steps of a rebuild with
// resting ones among them, which rebuild nothing in the background. It is a division of the time that a step may lose by the time
// that a byte costs. The cost is measured twice: by how much steps are longer than resting ones, which is right on average and noisy;
// and by how long the rounds take, which is exact and an upper bound, since rounds run beside a step's compute.
type rebuildPace struct {
	rate  config.Rate
	least float64 // bytes of leastRebuilt rows

	steps  int            // decided
	now    rebuildAmount  // of the step under way
	before rebuildAmount  // of the step before it
	last   time.Duration  // the step that was reported last
	amount float64        // bytes of a step that does not rest
	knee   float64        // bytes at which a window was too slow; 0: none was
	slow   int            // groups in a row that were much too slow
	ramped bool           // the ramp is over
	window window         // since the amount changed
	rests  []float64      // the newest resting steps, ns
	quiet  []float64      // rounds of these
	cost   weightedSlopes // of bytes
}

// rebuildReport is a rank's report to all others in each step of a rebuild.
type rebuildReport struct {
	step, rounds time.Duration // of the step before: from the end of its predecessor to its end; 0 if unknown
	left         int64         // bytes of rows and parities that this rank has yet to rebuild
}

func (x *rebuildReport) words() []uint64 {
	return []uint64{uint64(x.step), uint64(x.rounds), uint64(x.left)}
}

func rebuildReportOf(w []uint64) rebuildReport {
	return rebuildReport{time.Duration(w[0]), time.Duration(w[1]), int64(w[2])}
}

// rebuildWords is how many 64-bit fields a rebuildReport has on the wire.
const rebuildWords = 3

// rebuildAmount is the work of each rank beside a step.
type rebuildAmount struct {
	bytes int64
	rests bool
}

// window is the steps since the amount changed, in ns.
type window struct {
	loads, rounds []float64 // of steps that rebuild: how long they took, and the rounds of these
	group         []float64 // loads of the group under way
	groups        int
}

// weightedSlopes are two least-squares slopes through the origin, over the bytes of a step, in which older windows fade.
type weightedSlopes struct{ xx, steps, rounds float64 }

// newRebuildPace begins a rebuild.
func newRebuildPace(rate config.Rate, rowBytes int) rebuildPace {
	p := rebuildPace{rate: rate, least: float64(leastRebuilt * rowBytes)}
	p.amount, p.now.bytes = p.least, int64(p.least)
	if rate == config.RateMax {
		p.now.bytes = math.MaxInt64
	}
	p.before = p.now
	return p
}

// decideAmount takes the report of the last step but one, and returns the amount of the next step. took is the time of
// that step and rounds the time of its rebuild, on all ranks; took is 0 if that is unknown.
func (p *rebuildPace) decideAmount(took, rounds time.Duration) rebuildAmount {
	if took > 0 {
		p.takeStep(took, rounds)
	}
	p.before = p.now
	switch {
	case p.rate == config.RateMax:
		p.now = rebuildAmount{bytes: math.MaxInt64}
	case p.rate > 0:
		due := min(took, max(longestBurst, 2*p.last))
		p.now = rebuildAmount{bytes: int64(min(max(float64(p.rate)*due.Seconds(), p.least), mostRebuilt))}
	case p.steps%groupSteps == restingStep(p.steps/groupSteps):
		p.now = rebuildAmount{rests: true}
	default:
		p.now = rebuildAmount{bytes: int64(p.amount)}
	}
	if took > 0 {
		p.last = took
	}
	p.steps++
	return p.now
}

// restingStep returns the place of the resting step in a group. It follows no period, so that the steps of a commit are no more often
// resting than others.
func restingStep(group int) int {
	x := uint64(group+1) * 0x9E3779B97F4A7C15 // splitmix64
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return int((x ^ x>>31) % groupSteps)
}

// takeStep adds a step to the window.
func (p *rebuildPace) takeStep(took, rounds time.Duration) {
	if p.rate != config.RateAuto {
		return
	}
	if p.last == 0 { // the first one: a guess until something is measured
		p.amount = min(max(p.least, allowedShare*startRate*took.Seconds()), mostRebuilt)
	}
	w := &p.window
	if p.before.rests {
		p.rests, p.quiet = appendNewest(p.rests, float64(took)), appendNewest(p.quiet, float64(rounds))
		return
	}
	if float64(p.before.bytes) != math.Trunc(p.amount) {
		return // decided before the amount changed
	}
	w.loads, w.rounds, w.group = append(w.loads, float64(took)), append(w.rounds, float64(rounds)), append(w.group, float64(took))
	if len(w.group) < groupSteps-1 || len(p.rests) == 0 {
		return
	}
	p.endGroup()
}

// appendNewest appends to a list of the resting steps of two windows.
func appendNewest(list []float64, x float64) []float64 {
	if len(list) == 2*windowGroups {
		list = append(list[:0], list[1:]...)
	}
	return append(list, x)
}

// endGroup halves the amount at once if two groups in a row are much too slow, and else ends the window if that is full. At the ramp a group
// that costs too much may be noise: a second one decides.
func (p *rebuildPace) endGroup() {
	w := &p.window
	rest := median(p.rests)
	if median(w.group)-rest > 4*allowedShare*rest {
		p.slow++
	} else {
		p.slow = 0
	}
	w.group, w.groups = w.group[:0], w.groups+1
	switch {
	case p.slow == 2:
		p.slow = 0
		p.endWindow(rest)
		p.setAmount(min(p.amount, float64(p.before.bytes)/2))
	case w.groups == windowGroups, !p.ramped && (w.groups == 2 || median(w.loads)-rest <= allowedShare*rest):
		p.endWindow(rest)
	}
}

// endWindow changes the amount by the figures of the window.
func (p *rebuildPace) endWindow(rest float64) {
	w, n := &p.window, p.amount
	extra := median(w.loads) - rest
	rounds := max(0, median(w.rounds)-median(p.quiet))
	p.cost.addWindow(n, extra, rounds)
	cost, bound := p.cost.perByte()
	cost = min(max(cost, bound/hiddenShare), bound)
	growth := float64(mostGrowth)
	if !p.ramped {
		growth = rampGrowth
	}
	if bound > 0 {
		growth = max(growth, min(safeGrowth, allowedShare*rest/bound/n))
	}
	next := growth * n
	if cost > 0 {
		next = min(next, max(n/mostFall, allowedShare*rest/cost))
	}
	p.ramped = p.ramped || extra > allowedShare*rest || next < steady*n
	switch {
	case extra > allowedShare*rest:
		p.knee = n
	case next > n && p.knee > 0 && n < p.knee:
		next = min(next, max((n+p.knee)/2, 1.05*n)) // an amount that was too much a while ago is approached slowly
	case next > n:
		p.knee = 0
	}
	p.setAmount(next)
}

// setAmount begins a window.
func (p *rebuildPace) setAmount(bytes float64) {
	p.amount = min(max(bytes, p.least), mostRebuilt)
	p.window = window{loads: p.window.loads[:0], rounds: p.window.rounds[:0], group: p.window.group[:0]}
}

// addWindow adds a window: steps with x bytes took extra ns more than resting ones, and their rounds took some ns more.
func (s *weightedSlopes) addWindow(x, extra, rounds float64) {
	s.xx = float64(fading*s.xx) + float64(x*x)
	s.steps = float64(fading*s.steps) + float64(x*extra)
	s.rounds = float64(fading*s.rounds) + float64(x*rounds)
}

// perByte returns ns per byte, of steps and of rounds.
func (s *weightedSlopes) perByte() (steps, rounds float64) { return s.steps / s.xx, s.rounds / s.xx }

// median returns the median of a list that is not empty.
func median(list []float64) float64 {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
