package tier

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// version is the value of a row: the step that wrote it, and a number. The zero version is its init.
type version struct {
	step  int64
	value uint64
}

// job is a made-up job over a tier: a Policy and its twin decide, and rows have values, in frames, in a log and where
// they were spilled. truth has all versions of each row.
type job struct {
	r       *rand.Rand
	p       *Policy
	w       *twin
	o       Options
	moves   Moves
	truth   map[int32][]version
	frames  []version
	log     map[int32][]version
	spill   map[int32]version
	sealed  []epoch // not logged yet
	commits []int64 // logged ends of epochs
	ahead   int     // most steps that are held
	done    int64   // the last step that was computed
	counts  [8]int
}

// epoch is a sealed epoch: its end, and the rows that it wrote.
type epoch struct {
	end  int64
	rows map[int32]version
}

func newJob(seed uint64) *job {
	r := rand.New(rand.NewPCG(seed, 0))
	o := Options{Slots: 1 + r.IntN(60), Window: 1 + r.IntN(7)}
	o.Step = []int64{0, int64(r.IntN(1 << 20)), 1<<16 - 9, 1<<32 - 9}[r.IntN(4)] // near the ends of the counters
	o.Frames = 1 + r.IntN(o.Slots+2)
	if r.IntN(3) == 0 {
		for at := int32(0); at < int32(o.Slots); {
			next := Range{at + r.Int32N(9), 0}
			next.End = next.First + r.Int32N(4)
			if at = next.End; int(at) <= o.Slots {
				o.Pinned = append(o.Pinned, next)
			}
		}
	}
	j := &job{r: r, o: o, w: newTwin(o), truth: map[int32][]version{}, frames: make([]version, o.Frames), log: map[int32][]version{},
		spill: map[int32]version{}, commits: []int64{o.Step}, ahead: 1 + r.IntN(3), done: o.Step}
	p, err := New(o)
	if err != nil {
		return nil // more rows are pinned than fit
	}
	j.p = p
	p.uses.end = []uint32{0, 1<<useBits - 99, 1<<32 - 99}[r.IntN(3)]
	if r.IntN(2) == 0 { // the log has rows at the begin
		var stored []int32
		for slot := range int32(o.Slots) {
			if r.IntN(2) == 0 {
				v := version{0, r.Uint64()}
				j.truth[slot], j.log[slot], j.w.written[slot] = []version{v}, []version{v}, true
				stored = append(stored, slot)
			}
		}
		p.Stored(stored)
	}
	return j
}

// drawSlots returns ascending slots, lower ones more often.
func (j *job) drawSlots(most int) []int32 {
	set := map[int32]bool{}
	for range j.r.IntN(most + 1) {
		u := j.r.Float64()
		set[int32(u*u*float64(j.o.Slots))] = true
	}
	var slots []int32
	for s := range set {
		slots = append(slots, s)
	}
	slices.Sort(slots)
	return slots
}

func (j *job) newestOf(slot int32) version {
	if all := j.truth[slot]; len(all) > 0 {
		return all[len(all)-1]
	}
	return version{}
}

// next does one random event.
func (j *job) next() error {
	switch k := j.r.IntN(23); {
	case k < 7 && j.p.expected-j.p.released < int64(j.o.Window):
		j.counts[0]++
		step, slots := j.p.expected+1, j.drawSlots(max(1, j.o.Frames*2/3))
		j.p.Expect(step, slots)
		j.w.expect(step, slots)
	case k < 13 && j.p.expected > j.p.heldTo && int(j.p.heldTo-j.p.released) < j.ahead:
		return j.hold(j.p.heldTo + 1)
	case k < 17 && j.p.heldTo > j.p.released:
		return j.compute(j.p.released + 1)
	case k == 17 && j.done > j.lastSealed():
		return j.seal()
	case k == 18 && len(j.sealed) > 0:
		j.append()
	case k == 19 && j.r.IntN(6) == 0:
		j.cut()
	case k > 19 && k < 22 && j.p.expected == j.p.released:
		slots := j.drawSlots(j.o.Frames)
		j.p.Keep(slots)
		j.w.keep(slots)
		j.counts[7] += len(slots)
	case k == 22:
		j.p.Unkeep()
		j.w.unkeep()
	}
	return nil
}

func (j *job) hold(step int64) error {
	victims, spilled, read, drawn, needed := j.w.hold(step)
	err := j.p.Hold(step, &j.moves)
	var full *CapacityError
	if needed > 0 {
		if !errors.As(err, &full) || full.Needed != needed || full.Step != step || full.Frames != j.o.Frames {
			return fmt.Errorf("step %d needs %d frames: %v", step, needed, err)
		}
		j.counts[1]++
		if j.p.heldTo == j.p.released { // the job would end here
			j.cut()
		}
		return nil
	}
	if err != nil {
		return err
	}
	m := &j.moves
	j.counts[2] += len(victims)
	j.counts[3] += len(spilled)
	j.counts[4] += len(read)
	if m.Dropped != len(victims)-len(spilled) || !slices.Equal(rowSlots(m.Spill), spilled) || !slices.Equal(rowSlots(m.Read), read) ||
		!slices.Equal(rowSlots(m.Draw), drawn) {
		return fmt.Errorf("step %d: %+v; the twin has victims %v, spills %v, reads %v and draws %v", step, *m, victims, spilled, read, drawn)
	}
	for _, v := range victims {
		if f, ok := j.p.FrameOf(v); ok {
			return fmt.Errorf("step %d: victim %d is in frame %d", step, v, f)
		}
	}
	for _, x := range m.Spill {
		j.spill[x.Slot] = j.frames[x.Frame]
	}
	for _, x := range m.Read {
		v, isSpilled := j.spill[x.Slot]
		if all := j.log[x.Slot]; !isSpilled && len(all) > 0 {
			v = all[len(all)-1]
		}
		j.frames[x.Frame] = v
	}
	for _, x := range m.Draw {
		j.frames[x.Frame] = version{}
	}
	return nil
}

// compute reads the rows of a step, writes some of them, and releases the step.
func (j *job) compute(step int64) error {
	slots := j.w.window[step]
	var wrote []int32
	for _, slot := range slots {
		f, ok := j.p.FrameOf(slot)
		if !ok {
			return fmt.Errorf("step %d: row %d is not resident", step, slot)
		}
		if j.frames[f] != j.newestOf(slot) {
			return fmt.Errorf("step %d reads %v of row %d; its newest version is %v", step, j.frames[f], slot, j.newestOf(slot))
		}
		if j.r.IntN(4) > 0 {
			v := version{step, j.r.Uint64()}
			j.frames[f] = v
			j.truth[slot] = append(j.truth[slot], v)
			wrote = append(wrote, slot)
		}
	}
	j.p.Wrote(step, wrote)
	j.w.wrote(step, wrote)
	j.p.Release(step)
	j.w.release(step)
	j.done = step
	return nil
}

func (j *job) lastSealed() int64 {
	if n := len(j.sealed); n > 0 {
		return j.sealed[n-1].end
	}
	return j.commits[len(j.commits)-1]
}

// seal collects the rows that were written since the last seal, from frames or from where they were spilled.
func (j *job) seal() error {
	e := epoch{j.done, map[int32]version{}}
	for slot := range j.truth {
		newest := j.newestOf(slot)
		if newest.step <= j.lastSealed() {
			continue
		}
		v, ok := j.spill[slot]
		if f, isResident := j.p.FrameOf(slot); isResident {
			v, ok = j.frames[f], true
		}
		if !ok || v != newest {
			return fmt.Errorf("epoch %d: row %d is %v, its newest version is %v", e.end, slot, v, newest)
		}
		e.rows[slot] = v
	}
	j.sealed = append(j.sealed, e)
	return nil
}

// appendTo writes the oldest sealed epoch to the log.
func (j *job) append() {
	e := j.sealed[0]
	j.sealed = j.sealed[1:]
	for slot, v := range e.rows {
		j.log[slot] = append(j.log[slot], v)
	}
	maps.DeleteFunc(j.spill, func(_ int32, v version) bool { return v.step <= e.end })
	j.commits = append(j.commits, e.end)
	j.p.Logged(e.end)
	j.w.log(e.end)
	j.counts[5]++
}

// cut goes back to one of the last logged epochs.
func (j *job) cut() {
	n := len(j.commits) - j.r.IntN(min(2, len(j.commits)))
	j.commits = j.commits[:n]
	step := j.commits[n-1]
	after := func(v version) bool { return v.step > step }
	var fresh []int32
	for slot, all := range j.truth {
		kept := slices.DeleteFunc(all, after)
		j.truth[slot] = kept
		if len(kept) == 0 && len(all) > 0 {
			fresh = append(fresh, slot)
		}
		j.log[slot] = slices.DeleteFunc(j.log[slot], after)
	}
	clear(j.spill)
	j.sealed, j.done = nil, step
	j.p.Cut(step, fresh)
	j.w.cut(step, fresh)
	j.counts[6]++
}

func rowSlots(rows []Row) (slots []int32) {
	for _, x := range rows {
		slots = append(slots, x.Slot)
	}
	return slots
}

// Random events: the victims are the twin's, the invariants hold, and each step reads the newest version of its rows
// despite spills, late logs and cuts.
func TestPolicyAgainstItsTwin(t *testing.T) {
	seed, runs := uint64(time.Now().UnixNano()), 1000
	if testing.Short() {
		runs = 300
	}
	var counts [8]int
	for i := range uint64(runs) {
		j := newJob(seed + i)
		if j == nil {
			continue
		}
		for event := range 200 {
			err := j.next()
			if err == nil {
				err = j.p.check(j.w)
			}
			if err != nil {
				t.Fatalf("seed %d, event %d, %+v: %v", seed+i, event, j.o, err)
			}
		}
		for k, n := range j.counts {
			counts[k] += n
		}
	}
	t.Logf("seed %d: %d steps, %d too large, %d victims, %d spilled, %d reads, %d epochs logged, %d cuts, %d rows kept",
		seed, counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], counts[6], counts[7])
	for k, n := range counts {
		if n < runs {
			t.Errorf("count %d is only %d", k, n)
		}
	}
}

// check returns an error if an invariant of the policy does not hold, or it differs from its twin.
func (p *Policy) check(w *twin) error {
	inList := make([]int, p.o.Frames)
	order := []int32{}
	for number := range unordered + 2*p.o.Window {
		head := p.headOf(number)
		for f := p.frames[head].next; f != head; f = p.frames[f].next {
			if p.frames[p.frames[f].prev].next != f {
				return fmt.Errorf("list %d is not linked both ways at frame %d", number, f)
			}
			inList[f]++
			if number != vacant && number != idlePinned && (p.frames[f].state&dirty != 0) != (number&1 == 1) {
				return fmt.Errorf("frame %d is in list %d with state %x", f, number, p.frames[f].state)
			}
		}
	}
	for i := 0; ; i++ {
		head, ok := p.leavingList(i)
		if !ok {
			break
		}
		for f := p.frames[head].next; f != head; f = p.frames[f].next {
			order = append(order, p.frames[f].slot)
		}
	}
	if want := slotsOf(w.leaving()); !slices.Equal(order, want) {
		return fmt.Errorf("rows leave in the order %v, want %v", order, want)
	}
	held, idle := 0, 0
	for f := range int32(p.o.Frames) {
		x := &p.frames[f]
		isVacant := int(f) >= p.used
		for v := p.frames[p.headOf(vacant)].next; v != p.headOf(vacant); v = p.frames[v].next {
			isVacant = isVacant || v == f
		}
		if inList[f] > 1 || isVacant && inList[f] == 0 && int(f) < p.used {
			return fmt.Errorf("frame %d is in %d lists", f, inList[f])
		}
		if isVacant {
			continue
		}
		if at, ok := p.FrameOf(x.slot); !ok || at != f {
			return fmt.Errorf("frame %d has row %d, which is in frame %d (%t)", f, x.slot, at, ok)
		}
		r := w.rows[x.slot]
		if r == nil || r.class.held != (inList[f] == 0) || w.isPinned(x.slot) != (x.state&pinned != 0) {
			return fmt.Errorf("frame %d, row %d: state %x, in %d lists; the twin has %+v", f, x.slot, x.state, inList[f], r)
		}
		if r.class.held {
			held++
		} else if x.state&pinned != 0 {
			idle++
		}
	}
	if held != p.held || idle != p.idle {
		return fmt.Errorf("%d rows are held and %d pinned, counted %d and %d", p.held, p.idle, held, idle)
	}
	return p.checkSlots(w)
}

// checkSlots checks the words of the slots.
func (p *Policy) checkSlots(w *twin) error {
	resident := 0
	for slot := range int32(p.o.Slots) {
		if _, ok := p.FrameOf(slot); ok {
			resident++
		}
		last := int64(0)
		for s, slots := range w.window {
			if slices.Contains(slots, slot) {
				last = max(last, s)
			}
		}
		s := *p.stateOf(slot)
		if (s&written != 0) != w.written[slot] || (s&inWindow != 0) != (last > 0) {
			return fmt.Errorf("slot %d has state %x; its last use is at step %d, written: %t", slot, s, last, w.written[slot])
		}
		if last > 0 {
			u := p.spanOf(last)
			if n := s.newest(); (n-u.first)&useNumber >= u.end-u.first || p.uses.slotOf(n) != slot {
				return fmt.Errorf("slot %d: use %d is not one of step %d", slot, n, last)
			}
		}
	}
	if resident != len(w.rows) {
		return fmt.Errorf("%d rows are resident, %d at the twin", resident, len(w.rows))
	}
	return nil
}
