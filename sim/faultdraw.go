package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/probe"
)

// drawFaults draws the faults of a run.
func drawFaults(r *rand.Rand, set *setting) (list []fault) {
	hosts, most := set.processes+set.spares, 4
	if set.safety && set.focus != Restores {
		most = 10
	}
	for range 1 + r.IntN(most) {
		f := set.drawFault(r, hosts)
		switch r.IntN(4) {
		case 0, 1:
			f.step, f.point = r.Int64N(set.steps+1), points[r.IntN(len(points))]
		case 2:
			f.step, f.after = 1+r.Int64N(set.steps), r.Int64N(spread(r))
		default:
			f.world, f.after = 1+r.Uint64N(3), r.Int64N(spread(r))
		}
		kind := r.IntN(6)
		if set.focus == Restores { // once there is a checkpoint
			kind, f.world, f.step = 5, 0, max(f.step, set.steps/2)
		}
		list = append(list, f)
		switch {
		case kind < 2: // another one at about the same time
			g := set.drawFault(r, hosts)
			g.host = (f.host + 1 + r.IntN(hosts)) % hosts
			g.step, g.point, g.world, g.after = f.step, f.point, f.world, f.after+r.Int64N(64)
			list = append(list, g)
		case kind < 3: // and one while a task is slow to recover
			list = append(list, set.drawLinger(r, hosts, f, returning))
		case kind < 4: // or slow to rebuild, beside training
			g := set.drawLinger(r, hosts, f, rebuilding)
			h := set.drawLinger(r, hosts, f, computing) // which delays the end of the step
			h.host, h.step = (g.host+1+r.IntN(hosts-1))%hosts, g.step
			list = append(list, g, h)
		case kind < 5: // or at any point
			list = append(list, set.drawLinger(r, hosts, f, points))
		case set.safety: // too many at once, and one while a task is slow to restore a checkpoint
			for range 1 + r.IntN(3) {
				g := f
				g.host = r.IntN(hosts)
				list = append(list, g)
			}
			list = append(list, set.drawLinger(r, hosts, f, falling))
		}
	}
	return list
}

// Points of a recovery until training resumes; of a rebuild, and of the step beside it;
// of restoring a checkpoint.
var (
	points     = probe.All()
	returning  = points[slices.Index(points, probe.Join):slices.Index(points, probe.Rebuild)]
	rebuilding = []probe.Point{probe.Rebuild, probe.Ask, probe.Install}
	computing  = []probe.Point{probe.Fetch, probe.Forward}
	falling    = []probe.Point{probe.Restore, probe.Restored}
)

// drawLinger draws a goroutine to hold when f is injected or soon after, and a fault to
// inject meanwhile. That is often on the same host as f, whose loss already counts.
func (set *setting) drawLinger(r *rand.Rand, hosts int, f fault, points []probe.Point) fault {
	then := set.drawFault(r, hosts)
	if r.IntN(3) == 0 {
		then.host = f.host
	}
	then.after = r.Int64N([]int64{10, 100, 1000}[r.IntN(3)])
	return fault{kind: holdGoroutine, host: r.IntN(hosts), step: f.step + r.Int64N(4), point: points[r.IntN(len(points))],
		hold: time.Duration(1 + r.Int64N(int64(lingers))), then: &then}
}

// lingers is the maximum time for which a goroutine is held.
const lingers = 2 * time.Second

// drawFault draws the kind, host and duration of a fault.
func (set *setting) drawFault(r *rand.Rand, hosts int) (f fault) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	var k kindOf
	only := kindNamed(set.focus)
	if set.focus == Restores {
		only = kindNamed(killWorker)
	}
	for k.name == "" || k.linked && !set.linked || only != nil && k.name != only.name {
		at := r.IntN(total)
		for _, k = range kinds {
			if at -= k.weight; at < 0 {
				break
			}
		}
	}
	f.kind, f.host = k.name, r.IntN(hosts)
	if k.hold > 0 {
		f.hold = time.Duration(1 + r.Int64N(int64(k.hold)))
	}
	if k.name == networkPartition {
		f.way = r.IntN(3)
		for m := atRegister; m < hosts; m++ {
			if m == f.host || r.IntN(4) == 0 {
				f.with = append(f.with, m)
			}
		}
	}
	return f
}

// spread draws the range of decisions within which a moment is drawn: a few, or some
// steps.
func spread(r *rand.Rand) int64 { return []int64{50, 1000, 10000}[r.IntN(3)] }
