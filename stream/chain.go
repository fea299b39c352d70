package stream

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/lineage"
)

// Position is the place of a reader in one partition.
type Position struct {
	Lineage lineage.ID `json:"lineage"` // zero: nothing was read
	Step    int64      `json:"step"`    // that the reader holds; -1: it holds nothing
	Next    int64      `json:"next"`    // the offset from which it reads on
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
	return fmt.Sprintf("partition %d, offset %d: %s; %s, and the next one cannot be made: frames were lost or trimmed", g.Partition, g.Offset, g.Why, held)
}

// Foreign is the error of a record, or a whole partition, that is not of the run.
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
	at        Position
	term      uint64
	session   uint32 // of term
	seen      bool   // a frame was seen
	open      *Epoch // whose end was not seen yet; nil: there is none
	head      header // of the last frame of open
	skipping  bool   // open will be dropped
	about     []byte // the description of the run, of the newest term
	dropped   int64
	last      int64 // the offset behind the last record
}

// NewChain follows a partition from a position.
func NewChain(partition int, at Position) *Chain { return &Chain{partition: partition, at: at} }

// Position is the place from which another Chain could go on, behind the last epoch.
func (c *Chain) Position() Position { return c.at }

// readTo is the offset behind the last record that was taken, or at which the chain began.
func (c *Chain) readTo() int64 { return max(c.at.Next, c.last) }

// Dropped is how many epochs and frames were dropped: those that were written again, or by a writer that had been replaced.
func (c *Chain) Dropped() int64 { return c.dropped }

func (c *Chain) gap(offset int64, format string, args ...any) error {
	return &Gap{c.partition, offset, c.at.Step, fmt.Sprintf(format, args...)}
}

// Take takes the next record. It returns an epoch that is complete now, nil if there is none.
func (c *Chain) Take(r Record) (*Epoch, error) {
	c.last = r.Offset + 1
	h, payload, err := parseFrame(r.Bytes)
	if err == nil && int(h.rank) != c.partition {
		err = fmt.Errorf("the frame is of rank %d", h.rank)
	}
	if err != nil {
		return nil, &Foreign{c.partition, r.Offset, err}
	}
	switch {
	case c.seen && h.term < c.term:
		c.dropped++
		return nil, nil
	case c.seen && h.term == c.term && h.session != c.session:
		return nil, &Foreign{c.partition, r.Offset, fmt.Errorf("two jobs write to the topic at the same time: end one of them, and let the other use a new topic")}
	case !c.seen || h.term > c.term:
		c.seen, c.term, c.session, c.open = true, h.term, h.session, nil
	}
	if h.kind == kindAbout {
		c.about = append([]byte(nil), payload...)
		return nil, nil
	}
	switch err := c.takePart(r, h); {
	case err == errDouble || err == nil && c.open == nil:
		c.dropped++
		return nil, nil
	case err != nil:
		return nil, err
	}
	return c.addTo(r, h, payload)
}

// errDouble says that a frame is there twice.
var errDouble = errors.New("the frame was taken before")

// takePart finds the epoch that a frame belongs to: the open one, or one that begins.
func (c *Chain) takePart(r Record, h header) error {
	follows := c.open != nil && h.from == c.head.from && h.to == c.head.to && h.absolute == c.head.absolute && h.lineage == c.head.lineage
	switch {
	case h.number == 0:
		return c.beginEpoch(r, h)
	case follows && h.number == c.head.number+1:
		c.head = h
		return nil
	case follows && h.number <= c.head.number:
		return errDouble
	case c.open == nil && h.to <= c.at.Step && h.lineage == c.at.Lineage:
		return nil // the rest of an epoch that is dropped
	case c.open == nil:
		return c.gap(r.Offset, "frame %d of steps %d to %d comes without those before it", h.number, h.from, h.to)
	}
	return c.gap(r.Offset, "frame %d of steps %d to %d follows on frame %d of steps %d to %d", h.number, h.from, h.to, c.head.number,
		c.head.from, c.head.to)
}

// beginEpoch begins an epoch.
func (c *Chain) beginEpoch(r Record, h header) error {
	sameRun := h.lineage == c.at.Lineage
	c.head, c.skipping = h, sameRun && h.to <= c.at.Step
	c.open = &Epoch{Lineage: h.lineage, Rank: int(h.rank), Ranks: int(h.ranks), Absolute: h.absolute, From: h.from, To: h.to}
	switch {
	case h.absolute, c.skipping:
		return nil
	case !sameRun:
		return c.gap(r.Offset, "steps %d to %d are of another run (lineage %s), and its beginning is missing", h.from, h.to, h.lineage.Short())
	case h.from > c.at.Step:
		return c.gap(r.Offset, "steps %d to %d follow on step %d", h.from, h.to, c.at.Step)
	}
	return nil
}

// addTo adds a frame to the open epoch, and returns the epoch at its end, unless it is dropped.
func (c *Chain) addTo(r Record, h header, payload []byte) (*Epoch, error) {
	e := c.open
	var err error
	switch h.kind {
	case kindRows:
		before, bytes := len(e.Slots), len(e.Rows)
		e.Slots, e.Rows, err = parseRows(payload, e.Slots, e.Rows)
		if err == nil && before > 0 && (e.Slots[before] <= e.Slots[before-1] && !h.absolute || bytes/before != (len(e.Rows)-bytes)/(len(e.Slots)-before)) {
			err = fmt.Errorf("the rows do not follow on those before")
		}
	case kindExtra:
		e.Extra = append(e.Extra, payload...)
	case kindEnd:
		if err = checkEnd(payload, len(e.Slots)); err == nil {
			return c.endEpoch(r), nil
		}
	}
	if err != nil {
		return nil, &Foreign{c.partition, r.Offset, err}
	}
	return nil, nil
}

// endEpoch ends the open epoch.
func (c *Chain) endEpoch(r Record) *Epoch {
	e := c.open
	c.open = nil
	if c.skipping {
		c.dropped++
		return nil
	}
	e.sort()
	e.About, e.Next, e.Written = c.about, r.Offset+1, r.Time
	c.at = Position{e.Lineage, e.To, e.Next}
	return e
}
