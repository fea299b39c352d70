package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/train"
)

// kindOf is a kind of fault.
type kindOf struct {
	name   string
	weight int
	linked bool // only where processes talk over connections
	hold   time.Duration
}

// kinds are all that can go wrong. What lasts does so for up to hold.
var kinds = [...]kindOf{
	{name: "kill", weight: 8},                                           // SIGKILL of a worker
	{name: "freeze", weight: 2, hold: 3 * time.Second},                  // SIGSTOP of a worker, then SIGCONT, unless its supervisor finds it silent and kills it
	{name: "cut", weight: 2},                                            // all connections of a worker break
	{name: "node", weight: 2, hold: 3 * time.Second},                    // a machine loses its power; it comes back, empty
	{name: "stall", weight: 1, hold: 3 * time.Second},                   // a machine stands still, its supervisor too, and goes on
	{name: "partition", weight: 2, linked: true, hold: 3 * time.Second}, // machines do not reach the others, in one direction or both
	{name: "deaf", weight: 1, hold: 3 * time.Second},                    // a machine does not reach the register
	{name: "slow", weight: 1, linked: true, hold: 2 * time.Second},      // what a machine sends and gets comes late
	{name: "lost", weight: 1, linked: true},                             // a packet, below what a connection promises
	{name: "repeated", weight: 1, linked: true},                         // a packet
	{name: "garbled", weight: 1, linked: true},                          // a packet
	{name: "linger"}, // a goroutine of a worker stays where it is, and meanwhile something goes wrong
}

// fault is one thing that goes wrong.
type fault struct {
	what    string
	machine int
	// When: where a rank on the machine comes to a point at a step or later; or, where
	// point is empty, so many decisions after the first rank comes to a step, or after
	// a world has begun.
	step  int64
	point string
	world uint64
	after int64
	hold  time.Duration
	with  []int  // of partition: the machines on the same side
	way   int    // of partition: 0 both, 1 out, 2 in
	then  *fault // of linger: what goes wrong, so many decisions later
}

func (f fault) String() string {
	when := fmt.Sprintf("%d decisions into step %d", f.after, f.step)
	switch {
	case f.then != nil:
		return fmt.Sprintf("linger on machine %d at %q from step %d on for %v, and then %v", f.machine, f.point, f.step, f.hold, f.then)
	case f.point != "":
		when = fmt.Sprintf("at %q from step %d on", f.point, f.step)
	case f.step == 0 && f.world == 0:
		when = fmt.Sprintf("%d decisions later", f.after)
	case f.world > 0:
		when = fmt.Sprintf("%d decisions into world %d", f.after, f.world)
	}
	if f.hold > 0 {
		when += fmt.Sprintf(" for %v", f.hold)
	}
	what := fmt.Sprintf("%s machine %d", f.what, f.machine)
	if f.what == "partition" {
		what = fmt.Sprintf("partition %s of machines %v", []string{"of both directions", "outwards", "inwards"}[f.way], f.with)
	}
	return what + " " + when
}

// faults injects what was drawn for a run.
type faults struct {
	c       *cluster
	waiting []fault
	any     bool // nothing limits what is lost at a time

	lost losses
	// broke is the generation in which a connection was broken last, where there was no
	// commit since; 0: none.
	broke uint64
	stood time.Duration // no machine stands still before
	hit   []fault
	count [len(kinds)]int // of hit, by kind
	// beyond says that more ranks were lost at a time than the code makes good.
	beyond bool
}

// String lists what has happened, and then what has not.
func (f *faults) String() string {
	var all []string
	for _, x := range f.hit {
		all = append(all, x.String())
	}
	for _, x := range f.waiting {
		all = append(all, "not "+x.String())
	}
	return strings.Join(all, "; ")
}

// drawFaults draws what goes wrong in a run.
func drawFaults(r *rand.Rand, set *setting) (list []fault) {
	machines, most := set.processes+set.spares, 4
	if set.safety {
		most = 10
	}
	for range 1 + r.IntN(most) {
		f := set.drawFault(r, machines)
		switch r.IntN(4) {
		case 0, 1:
			f.step, f.point = r.Int64N(set.steps+1), train.Points[r.IntN(len(train.Points))]
		case 2:
			f.step, f.after = 1+r.Int64N(set.steps), r.Int64N(spread(r))
		default:
			f.world, f.after = 1+r.Uint64N(3), r.Int64N(spread(r))
		}
		list = append(list, f)
		switch kind := r.IntN(6); {
		case kind < 2: // another one at about the same time
			g := set.drawFault(r, machines)
			g.machine = (f.machine + 1 + r.IntN(machines)) % machines
			g.step, g.point, g.world, g.after = f.step, f.point, f.world, f.after+r.Int64N(64)
			list = append(list, g)
		case kind < 3: // and while somebody is slow to recover from it
			list = append(list, set.drawLinger(r, machines, f, returning))
		case kind < 4: // or to get back what was lost, beside training
			g := set.drawLinger(r, machines, f, rebuilding)
			h := set.drawLinger(r, machines, f, computing) // which keeps the step from its end
			h.machine, h.step = (g.machine+1+r.IntN(machines-1))%machines, g.step
			list = append(list, g, h)
		case kind < 5: // or with anything
			list = append(list, set.drawLinger(r, machines, f, train.Points))
		case set.safety: // too many at once, and while somebody is slow to go back to a checkpoint
			for range 1 + r.IntN(3) {
				g := f
				g.machine = r.IntN(machines)
				list = append(list, g)
			}
			list = append(list, set.drawLinger(r, machines, f, falling))
		}
	}
	return list
}

// Points of a recovery up to where training goes on; of what is rebuilt beside that, and
// of that; of a fall back to a checkpoint.
var (
	returning  = train.Points[slices.Index(train.Points, "join"):slices.Index(train.Points, "rebuild")]
	rebuilding = []string{"rebuild", "ask", "install"}
	computing  = []string{"fetch", "forward"}
	falling    = []string{"fall", "fallen"}
)

// drawLinger draws who is slow where, when a fault comes or soon after, and what goes wrong
// then: often where the fault was, for that is lost already.
func (set *setting) drawLinger(r *rand.Rand, machines int, f fault, points []string) fault {
	then := set.drawFault(r, machines)
	if r.IntN(3) == 0 {
		then.machine = f.machine
	}
	then.after = r.Int64N([]int64{10, 100, 1000}[r.IntN(3)])
	return fault{what: "linger", machine: r.IntN(machines), step: f.step + r.Int64N(4), point: points[r.IntN(len(points))],
		hold: time.Duration(1 + r.Int64N(int64(lingers))), then: &then}
}

// lingers is how long somebody does, at most.
const lingers = 2 * time.Second

// drawFault draws what, and for how long.
func (set *setting) drawFault(r *rand.Rand, machines int) (f fault) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	var k kindOf
	for k.name == "" || k.linked && !set.linked {
		at := r.IntN(total)
		for _, k = range kinds {
			if at -= k.weight; at < 0 {
				break
			}
		}
	}
	f.what, f.machine = k.name, r.IntN(machines)
	if k.hold > 0 {
		f.hold = time.Duration(1 + r.Int64N(int64(k.hold)))
	}
	if k.name == "partition" {
		f.way = r.IntN(3)
		for m := atRegister; m < machines; m++ {
			if m == f.machine || r.IntN(4) == 0 {
				f.with = append(f.with, m)
			}
		}
	}
	return f
}

// spread is over how many decisions a moment is drawn: few, or some steps.
func spread(r *rand.Rand) int64 { return []int64{50, 1000, 10000}[r.IntN(3)] }

// reached is called where a rank comes to a point.
func (f *faults) reached(p *process, step int64, point string) {
	at := f.take(func(x fault) bool { return x.point == point && step >= x.step && x.machine == p.on.number })
	if point == "step" {
		f.later(f.take(func(x fault) bool { return x.point == "" && x.world == 0 && step >= x.step }))
	}
	for _, x := range at {
		f.inject(x)
	}
}

// formed is called when a world begins.
func (f *faults) formed(generation uint64) {
	f.later(f.take(func(x fault) bool { return x.world > 0 && generation >= x.world }))
}

// later has faults happen after so many decisions more.
func (f *faults) later(list []fault) {
	for _, x := range list {
		f.c.s.at(f.c.s.decisions+x.after, func() { f.inject(x) })
	}
}

// take removes the faults that a moment is for.
func (f *faults) take(now func(fault) bool) (taken []fault) {
	f.waiting = slices.DeleteFunc(f.waiting, func(x fault) bool {
		if now(x) {
			taken = append(taken, x)
			return true
		}
		return false
	})
	return taken
}
