package stream

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// Base is a model of a topic after some step.
type Base struct {
	Lineage lineage.ID
	Step    int64
	At      []Position // by partition of the topic, behind the epochs that the model has
	About   []byte     // the description of the run
	Extra   []byte     // of the first rank
	// Rows passes the rows of a rank to put, in parts. Slots ascend within a part.
	Rows func(rank int, put func(slots []int32, rows []byte) error) error
}

// Bases writes the models of a topic to another one, Topic.Base: with the newest of them, readers do not need the records before it. One
// writer at a time uses them.
type Bases struct {
	env     env.Env
	topic   Topic
	ranks   int
	first   uint64 // the session of the first base that is written here
	session uint64 // of the next one
	parts   []Partition
	starts  []int64 // by partition: the offset before the newest base that was written
	newest  *header // of the first partition, as it was found or written
}

// OpenBases opens the bases of a topic for writing. They are made if they do not exist. Session is drawn for each process.
func OpenBases(e env.Env, of Topic, ranks int, session uint64) (*Bases, error) {
	b := &Bases{env: e, topic: of.Base(), ranks: ranks, first: session, session: session}
	n, err := b.topic.Partitions()
	switch {
	case err == nil && n == 0:
		err = b.topic.Create(ranks)
	case err == nil && n != ranks:
		err = fmt.Errorf("it has %d partitions, %s has %d: remove it, it is of an earlier topic", n, of.Name(), ranks)
	case err == nil:
		err = b.topic.Keeps()
	}
	if err == nil {
		err = b.openParts()
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", b.topic.Name(), err)
	}
	return b, nil
}

// openParts opens the partitions, unless they are open.
func (b *Bases) openParts() error {
	if b.parts != nil {
		return nil
	}
	for i := range b.ranks {
		p, err := b.topic.Open(i)
		if err != nil {
			b.closeParts()
			return err
		}
		b.parts = append(b.parts, p)
	}
	if b.newest != nil {
		return nil
	}
	var err error
	if b.newest, err = b.findNewest(); err != nil {
		b.closeParts()
	}
	return err
}

// findNewest is the end of the newest base of the first partition.
func (b *Bases) findNewest() (*header, error) {
	end, err := newestEnd(b.env, b.parts[0])
	if errors.As(err, new(*Foreign)) {
		return nil, nil // readers leave it out
	}
	return end, err
}

// Superseded is the error of a base that is not written, since another writer has written a later one.
type Superseded struct {
	Topic     string
	Step, New int64
}

func (e *Superseded) Error() string {
	return fmt.Sprintf("%s has a base of step %d, after step %d: another follower writes bases", e.Topic, e.New, e.Step)
}

// Write writes a base. Once it returns nil, readers can begin with it, and the topic may be trimmed up to Base.At. Trim may follow.
func (b *Bases) Write(x Base) error {
	err := b.openParts()
	if err == nil {
		err = b.checkNewest(x)
	}
	if err == nil {
		err = b.writeAll(x)
	}
	if err != nil && !errors.As(err, new(*Superseded)) {
		b.closeParts() // records that are not acknowledged are dropped: the next attempt has another session
		return fmt.Errorf("%s: %w", b.topic.Name(), err)
	}
	return err
}

// checkNewest refuses a base that is older than the newest one, and one beside those of another writer.
func (b *Bases) checkNewest(x Base) error {
	end, err := b.findNewest()
	if err != nil || end == nil {
		return err
	}
	isMine := end.session-b.first < b.session-b.first
	isOther := !isMine && (b.newest == nil || end.session != b.newest.session)
	if isOther || end.lineage == x.Lineage && end.to > x.Step {
		return &Superseded{b.topic.Name(), x.Step, end.to}
	}
	return nil
}

// writeAll appends the epochs of all ranks, and waits until all are acknowledged.
func (b *Bases) writeAll(x Base) error {
	starts := make([]int64, b.ranks)
	h := header{absolute: true, lineage: x.Lineage, ranks: uint32(b.ranks), session: b.session, to: x.Step}
	b.session++
	for rank, p := range b.parts {
		var err error
		if _, starts[rank], err = p.Bounds(); err != nil {
			return err
		}
		h.rank = uint32(rank)
		if err := writeBase(p, h, &x); err != nil {
			return err
		}
	}
	for _, p := range b.parts {
		if err := SyncAll(p, nil); err != nil {
			return err
		}
	}
	b.starts, b.newest = starts, &h
	return nil
}

// writeBase appends the epoch of one rank.
func writeBase(p Partition, h header, x *Base) error {
	to := &batch{partition: p}
	f := frames{h: h, to: to}
	var extra []byte
	if h.rank == 0 {
		extra = x.Extra
		about := frames{h: h, to: to}
		about.addAbout(x.About)
		if err := to.end(); err != nil {
			return err
		}
	}
	if err := x.Rows(int(h.rank), func(slots []int32, rows []byte) error {
		f.addRows(slots, rows)
		return to.end()
	}); err != nil {
		return err
	}
	place, err := json.Marshal(x.At[h.rank])
	if err != nil {
		return err
	}
	f.addFrame(kindPlace, place)
	f.addEnd(extra)
	return to.end()
}

// Trim removes the bases before the one that was written last.
func (b *Bases) Trim() error {
	for i, p := range b.parts {
		if err := p.Trim(b.starts[i]); err != nil {
			return fmt.Errorf("%s: %w", b.topic.Name(), err)
		}
	}
	return nil
}

func (b *Bases) closeParts() {
	for _, p := range b.parts {
		p.Close()
	}
	b.parts = nil
}

// Close frees the partitions.
func (b *Bases) Close() { b.closeParts() }
