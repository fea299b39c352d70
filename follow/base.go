package follow

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/stream"
)

// baseTries is how often the bases are read again if another follower trims them meanwhile.
const baseTries = 5

// loadBase begins with the newest base of the topic whose digest is right, if it is newer than the model that the Follower has and not
// newer than Options.At. It reports whether there is one.
func (f *Follower) loadBase() (loaded bool, err error) {
	t := f.o.Topic.Base()
	n, err := t.Partitions()
	if err != nil || n == 0 {
		return false, err
	}
	bad := map[int64]bool{} // steps whose base cannot be used
	for tries := 0; ; {
		var m *model
		m, err = f.readBases(t, bad)
		var wrong *badBase
		switch {
		case errors.As(err, &wrong):
			f.o.Warn(fmt.Sprintf("%s: the base of step %d is skipped: %v", t.Name(), wrong.step, wrong.cause))
			bad[wrong.step] = true
		case errors.As(err, new(*stream.Trimmed)) && tries < baseTries:
			tries++
			f.o.Env.Sleep(pollFor)
		case err != nil:
			return false, fmt.Errorf("%s: %w", t.Name(), err)
		case m == nil:
			return false, nil
		default:
			if f.model != nil && m.at[0].Lineage != f.model.at[0].Lineage {
				f.leaveRun()
			}
			f.dropModel()
			m.readers = f.o.Publish != nil
			f.model = m
			return true, nil
		}
	}
}

// badBase is the error of a base that cannot be used.
type badBase struct {
	step  int64
	cause error
}

func (e *badBase) Error() string { return e.cause.Error() }

// readBases reads all bases, and returns the model of the newest; nil: there is none.
func (f *Follower) readBases(t stream.Topic, bad map[int64]bool) (m *model, err error) {
	defer func() {
		if err != nil && m != nil {
			m.free()
			m = nil
		}
	}()
	r, err := stream.OpenReader(stream.ReaderOptions{Env: f.o.Env, Topic: t, ToEnd: true, Bases: true})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for !f.o.Stop() {
		c, err := r.Next(pollFor)
		switch {
		case errors.Is(err, io.EOF):
			return m, nil
		case err != nil:
			return m, err
		case c == nil:
			if err := isSilent(r); err != nil {
				return m, err
			}
			continue
		case bad[c.Step] || !f.wantsBase(c):
			continue
		}
		if m != nil {
			m.free()
		}
		if m, err = f.modelOf(c); err != nil {
			return m, &badBase{c.Step, err}
		}
	}
	return m, nil
}

// wantsBase reports whether the Follower can begin with a base.
func (f *Follower) wantsBase(c *stream.Cut) bool {
	if f.o.At >= 0 && c.Step > f.o.At {
		if f.firstBase < 0 {
			f.firstBase = c.Step
		}
		return false
	}
	return f.model == nil || c.Lineage != f.model.at[0].Lineage || c.Step > f.model.step
}

// modelOf is the model of a base.
func (f *Follower) modelOf(c *stream.Cut) (*model, error) {
	for _, e := range c.Epochs {
		if e.Place == nil || !e.Absolute {
			return nil, fmt.Errorf("rank %d has no position in the topic", e.Rank)
		}
	}
	m, err := newModel(f.o.Env, c.Epochs[0].About)
	if err == nil && f.o.Check != nil {
		err = f.o.Check(m.model)
	}
	if err == nil {
		err = m.apply(c)
	}
	if err == nil && m.want == "" {
		err = errors.New("it has no digest")
	}
	if err != nil {
		if m != nil {
			m.free()
		}
		return nil, err
	}
	for rank, e := range c.Epochs {
		m.at[rank] = *e.Place
	}
	return m, nil
}

// silentFor is how long a Follower that ends at the end of the topic waits for a broker that does not answer.
const silentFor = time.Minute

// isSilent returns an error if the broker has been silent for too long.
func isSilent(r *stream.Reader) error {
	var s *stream.Silent
	if errors.As(r.Silence(), &s) && s.For >= silentFor {
		return s
	}
	return nil
}

// countBytes is about the length of the model in a topic.
func (m *model) countBytes() int64 { return m.touched()*int64(m.rowBytes()) + int64(len(m.dense)) }

// isBaseDue reports whether a base is due: the topic has grown by as much as a base has, or there was none yet.
func (f *Follower) isBaseDue() bool {
	return f.o.Trim && (f.based < 0 || f.grown >= f.model.countBytes()) && f.model.step != f.based
}

// writeBase writes the model as a base, and trims the topic behind it. A failure is reported: the topic is not trimmed then.
func (f *Follower) writeBase() {
	err := f.tryBase()
	var newer *stream.Superseded
	switch {
	case err == nil:
	case errors.As(err, &newer) && f.superseded:
	default:
		f.superseded = newer != nil
		f.o.Warn(fmt.Sprintf("the topic is not trimmed: %v", err))
	}
}

func (f *Follower) tryBase() error {
	m := f.model
	if f.bases == nil {
		b, err := stream.OpenBases(f.o.Env, f.o.Topic, len(m.Owners), f.o.Session)
		if err != nil {
			return err
		}
		f.bases = b
	}
	owned := int64(0)
	if owner := m.Owners[0]; owner >= 0 {
		owned = m.shards[owner].Slots()
	}
	c := store.Content{Record: m.record, Dense: m.dense, Digest: m.want}
	lossSlots, losses, extra := c.Past(m.losses, owned, m.rowBytes())
	err := f.bases.Write(stream.Base{Lineage: m.at[0].Lineage, Step: m.step, At: m.at, About: m.text, Extra: extra,
		Rows: func(rank int, put func([]int32, []byte) error) error {
			if err := m.passRows(rank, put); err != nil || rank > 0 || len(lossSlots) == 0 {
				return err
			}
			return put(lossSlots, losses)
		}})
	if err != nil {
		return err
	}
	f.based, f.grown = m.step, 0
	if err := trimTo(f.o.Topic, m.at); err != nil {
		return err
	}
	if err := f.bases.Trim(); err != nil {
		return err
	}
	f.o.Report(Progress{Step: m.step, Digest: m.want, Base: f.o.Topic.Base().Name(), Touched: m.touched()})
	return nil
}

// passBytes is about how many bytes of rows are passed at a time.
const passBytes = 4 << 20

// passRows passes the rows that a rank has written.
func (m *model) passRows(rank int, put func(slots []int32, rows []byte) error) error {
	owner := m.Owners[rank]
	if owner < 0 {
		return nil
	}
	h, rowBytes := m.shards[owner], m.rowBytes()
	block := make([]byte, max(1, passBytes/rowBytes)*rowBytes)
	touched := h.TouchedBits()
	var slots []int32
	for from := int64(0); ; {
		n, next, err := h.ReadTouched(block, from)
		if err != nil || n == 0 {
			return err
		}
		slots = slots[:0]
		for slot := from; slot < next; slot++ {
			if touched[slot>>6]>>(slot&63)&1 != 0 {
				slots = append(slots, int32(slot))
			}
		}
		if err := put(slots, block[:n*rowBytes]); err != nil {
			return err
		}
		from = next
	}
}

// trimTo removes the records of a topic before some positions, but for the last one of each: by it a job that resumes finds that
// readers hold its model, and does not send all rows again.
func trimTo(t stream.Topic, at []stream.Position) error {
	for i, x := range at {
		part, err := t.Open(i)
		if err != nil {
			return err
		}
		err = part.Trim(max(0, x.Next-1))
		part.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
