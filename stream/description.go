package stream

import "github.com/ecrec/ecrec/lineage"

// description is the description of a run, as one writer has sent it before its first epoch.
type description struct {
	lineage lineage.ID
	text    []byte // nil: not all frames have arrived
	part    []byte // of the frames that have arrived
	next    uint32 // the number of the next frame
	first   int64  // the offset of the first frame, also of an earlier attempt of the writer
	used    bool   // an epoch has it
	idle    int    // epochs of other writers that have ended since the last frame of this one
}

// addAbout adds a frame of a description. The last one is marked as absolute.
func (c *Chain) addAbout(h header, r Record, payload []byte) {
	d := c.abouts[h.session]
	switch {
	case h.number == 0: // also if the writer begins it again
		first := r.Offset
		if d != nil && !d.used && d.lineage == h.lineage {
			first = d.first
		}
		d = &description{lineage: h.lineage, first: first}
		c.abouts[h.session] = d
	case d == nil || d.text != nil || h.number != d.next:
		return // it is there twice
	}
	d.part, d.next = append(d.part, payload...), h.number+1
	if h.absolute {
		d.text, d.part = d.part, nil
	}
}

// describe gives an epoch that ends the description of its run, if its writer has sent one. The frames of a description whose first epoch
// has not ended are read again by a reader that restarts, like those of open epochs.
func (c *Chain) describe(e *Epoch, session uint64) {
	if d := c.abouts[session]; d != nil && d.lineage == e.Lineage && d.text != nil {
		if e.About, d.used = d.text, true; c.skips { // the writer of a base sends one epoch
			delete(c.abouts, session)
		}
	}
	for of, d := range c.abouts {
		if of == session {
			continue
		}
		if d.idle++; d.idle > mostIdle || c.left[d.lineage] {
			delete(c.abouts, of)
		} else if !d.used {
			e.Next = min(e.Next, d.first)
		}
	}
}
