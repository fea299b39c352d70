package stream

import (
	"encoding/json"
	"fmt"

	"github.com/ecrec/ecrec/lineage"
)

// Position is the place of a reader in one partition.
type Position struct {
	Lineage lineage.ID `json:"lineage"` // zero: nothing was read
	Step    int64      `json:"step"`    // that the reader holds; -1: it holds nothing
	Next    int64      `json:"next"`    // the offset from which it reads on: no epoch that it lacks has a frame before it
}

// Start is the position of a reader that has read nothing.
func Start(offset int64) Position { return Position{Step: -1, Next: offset} }

// Gap is the error of frames that are missing.
type Gap struct {
	Partition int
	Offset    int64 // at which the gap was found
	Held      int64 // the step that the reader holds; -1: none
	Why       string
}

func (g *Gap) Error() string {
	held := fmt.Sprintf("the model of step %d is complete", g.Held)
	if g.Held < 0 {
		held = "no model is complete"
	}
	return fmt.Sprintf("partition %d, offset %d: %s; %s, and the next one cannot be made: frames were lost or trimmed", g.Partition,
		g.Offset, g.Why, held)
}

// Foreign is the error of a record that is not of the run.
type Foreign struct {
	Partition int
	Offset    int64
	Err       error
}

func (e *Foreign) Error() string {
	return fmt.Sprintf("partition %d, offset %d: %v", e.Partition, e.Offset, e.Err)
}

func (e *Foreign) Unwrap() error { return e.Err }

// Chain follows one partition. It is pure: Take is called with each record.
type Chain struct {
	partition int
	ranks     int // partitions of the topic; 0: unknown
	at        Position
	last      int64                   // the offset behind the last record
	open      map[uint64]*assembly    // epochs whose end was not seen yet, by session
	left      map[lineage.ID]bool     // runs that were left for a fork
	abouts    map[uint64]*description // of runs, by the session of their writer
	dropped   int64
	skips     bool // frames that are missing make no gap: their epoch is left out
}

// assembly is an epoch of which not all frames have arrived.
type assembly struct {
	Epoch
	next  uint32 // the number of the next frame
	first int64  // the offset of the first frame, also of an earlier attempt of the writer
	idle  int    // epochs of other writers that have ended since the last frame
}

// mostIdle is how many epochs of other writers may end between two frames of an epoch. Then its writer is gone, and the epoch is dropped:
// else a reader that restarts would begin there for ever.
const mostIdle = 100

// NewChain follows a partition from a position.
func NewChain(partition int, at Position) *Chain {
	return &Chain{partition: partition, at: at, open: map[uint64]*assembly{}, left: map[lineage.ID]bool{}, abouts: map[uint64]*description{}}
}

// newBaseChain follows a partition of bases from an offset. A base that lacks frames is left out.
func newBaseChain(partition int, at Position) *Chain {
	c := NewChain(partition, at)
	c.skips = true
	return c
}

// leave drops the frames of runs that were left before the chain began, from then on. The run of the Position is not one of them.
func (c *Chain) leave(forks []lineage.Fork) {
	for _, f := range forks {
		if f.Lineage != c.at.Lineage {
			c.left[f.Lineage] = true
		}
	}
}

// Position is the place from which another Chain could continue: behind the last epoch, or before the first frame of one that is open.
func (c *Chain) Position() Position { return c.at }

// readTo is the offset behind the last record that was taken, or at which the chain began.
func (c *Chain) readTo() int64 { return max(c.at.Next, c.last) }

// Dropped is how many frames were dropped, since the chain held their epochs.
func (c *Chain) Dropped() int64 { return c.dropped }

func (c *Chain) gap(offset int64, format string, args ...any) error {
	return &Gap{c.partition, offset, c.at.Step, fmt.Sprintf(format, args...)}
}

// Take takes the next record. It returns an epoch that is complete now, nil if there is none.
func (c *Chain) Take(r Record) (*Epoch, error) {
	c.last = r.Offset + 1
	e, session, err := c.takeFrame(r)
	if err != nil && c.skips {
		delete(c.open, session)
		c.dropped++
		return nil, nil
	}
	return e, err
}

// takeFrame takes the next record. It returns the session of the writer beside the epoch.
func (c *Chain) takeFrame(r Record) (_ *Epoch, session uint64, _ error) {
	h, payload, err := parseFrame(r.Bytes)
	switch {
	case err != nil:
	case int(h.rank) != c.partition:
		err = fmt.Errorf("the frame is of rank %d", h.rank)
	case c.ranks > 0 && int(h.ranks) != c.ranks:
		err = fmt.Errorf("the run has %d ranks, and the topic %d partitions", h.ranks, c.ranks)
	}
	if err != nil {
		return nil, h.session, &Foreign{c.partition, r.Offset, err}
	}
	if d := c.abouts[h.session]; d != nil {
		d.idle = 0
	}
	switch {
	case c.left[h.lineage], h.lineage == c.at.Lineage && h.kind != kindAbout && h.to <= c.at.Step:
		c.dropped++
		return nil, h.session, nil
	case h.kind == kindAbout:
		c.addAbout(h, r, payload)
		return nil, h.session, nil
	}
	a, err := c.findAssembly(r, h)
	if a == nil {
		return nil, h.session, err
	}
	e, err := c.addTo(a, r, h, payload)
	return e, h.session, err
}

// findAssembly returns the epoch that a frame adds to. It is nil if the frame was taken before.
func (c *Chain) findAssembly(r Record, h header) (*assembly, error) {
	a := c.open[h.session]
	isOf := a != nil && h.from == a.From && h.to == a.To && h.absolute == a.Absolute && h.lineage == a.Lineage
	switch {
	case h.number == 0: // also if the writer begins the epoch again
		if err := c.checkBegin(r, h); err != nil {
			return nil, err
		}
		first := r.Offset
		if a != nil {
			first = a.first
		}
		a = &assembly{first: first,
			Epoch: Epoch{Lineage: h.lineage, Rank: int(h.rank), Ranks: int(h.ranks), Absolute: h.absolute, From: h.from, To: h.to}}
		c.open[h.session] = a
	case isOf && h.number < a.next:
		c.dropped++
		return nil, nil
	case !isOf:
		return nil, c.gap(r.Offset, "frame %d of steps %d to %d comes without those before it", h.number, h.from, h.to)
	case h.number > a.next:
		return nil, c.gap(r.Offset, "frame %d of steps %d to %d follows on frame %d", h.number, h.from, h.to, a.next-1)
	}
	a.next, a.idle = h.number+1, 0
	return a, nil
}

// checkBegin checks that an epoch may follow on what the chain holds.
func (c *Chain) checkBegin(r Record, h header) error {
	switch {
	case h.absolute:
		return nil
	case h.lineage != c.at.Lineage:
		return c.gap(r.Offset, "steps %d to %d are of another run (lineage %s), and its beginning is missing", h.from, h.to, h.lineage.Short())
	case h.from > c.at.Step:
		return c.gap(r.Offset, "steps %d to %d follow on step %d", h.from, h.to, c.at.Step)
	}
	return nil
}

// addTo adds a frame to an epoch, and returns the epoch at its end.
func (c *Chain) addTo(a *assembly, r Record, h header, payload []byte) (*Epoch, error) {
	var err error
	switch h.kind {
	case kindRows:
		before, bytes := len(a.Slots), len(a.Rows)
		a.Slots, a.Rows, err = parseRows(payload, a.Slots, a.Rows)
		if err == nil && before > 0 && (a.Slots[before] <= a.Slots[before-1] && !h.absolute || bytes/before != (len(a.Rows)-bytes)/(len(a.Slots)-before)) {
			err = fmt.Errorf("the rows do not follow on those before")
		}
	case kindExtra:
		a.Extra = append(a.Extra, payload...)
	case kindPlace:
		a.Place = new(Position)
		err = json.Unmarshal(payload, a.Place)
	case kindEnd:
		if err = checkEnd(payload, len(a.Slots)); err == nil {
			return c.endEpoch(a, h.session, r), nil
		}
	}
	if err != nil {
		return nil, &Foreign{c.partition, r.Offset, err}
	}
	return nil, nil
}

// endEpoch ends an epoch, and drops others that it makes superfluous.
func (c *Chain) endEpoch(a *assembly, session uint64, r Record) *Epoch {
	e := a.Epoch
	if e.sort(); c.at.Lineage != e.Lineage && c.at.Lineage != (lineage.ID{}) {
		c.left[c.at.Lineage] = true
	}
	e.Next, e.Written = r.Offset+1, r.Time
	for session, other := range c.open {
		other.idle++
		if c.left[other.Lineage] || other.Lineage == e.Lineage && other.To <= e.To || other.idle > mostIdle {
			delete(c.open, session)
			continue
		}
		e.Next = min(e.Next, other.first)
	}
	c.describe(&e, session)
	c.at = Position{e.Lineage, e.To, e.Next}
	return &e
}
