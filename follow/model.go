package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/stream"
)

// model is a copy of the model of a run.
type model struct {
	about
	text    []byte // of about
	dev     kernels.Device
	stream  kernels.Stream
	shards  []*shard.Shard // by owner
	sums    []digest.Sum   // of their rows
	before  []byte         // scratch: rows that are replaced
	known   []int32        // scratch: slots of before
	terms   []digest.Sum   // scratch of termsOf
	globals []int64        // scratch of termsOf

	cuts   int // that were applied; a base is one
	step   int64
	at     []stream.Position // by rank
	dense  []byte
	record []byte
	losses []float64
	want   string // the digest of the run at step; empty: unknown

	written int64     // when the newest cut was written, in milliseconds since 1970; 0: unknown
	readers bool      // changed is kept, for Options.Publish
	fresh   bool      // no View was published
	changed [][]int32 // by owner, slots that were replaced since the last View
	reset   []bool    // by owner, whether all of its rows were
}

// newModel makes the model of a run before its first step.
func newModel(e env.Env, text []byte) (m *model, err error) {
	m = &model{text: text, fresh: true}
	if m.about, err = parseAbout(text); err != nil {
		return nil, err
	}
	if m.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
		return nil, err
	}
	m.stream = m.dev.Stream(1)
	n := m.owners()
	for owner := range n {
		h, err := shard.New(m.dev, m.stream, m.model.ShardOptions(owner, n))
		if err != nil {
			m.free()
			return nil, err
		}
		h.ListWritten(false)
		m.shards, m.sums = append(m.shards, h), append(m.sums, digest.Sum{})
		m.changed, m.reset = append(m.changed, nil), append(m.reset, true)
	}
	for range m.Owners {
		m.at = append(m.at, stream.Start(0))
	}
	return m, nil
}

func (m *model) free() {
	for _, h := range m.shards {
		h.Close()
	}
	m.stream.Close()
}

// touched is how many rows the run has written.
func (m *model) touched() (n int64) {
	for _, h := range m.shards {
		n += h.Touched()
	}
	return n
}

// rowBytes is the length of a row with its state.
func (m *model) rowBytes() int { return 4 * (m.model.Width + m.model.RowState) }

// apply applies a cut.
func (m *model) apply(c *stream.Cut) error {
	if len(c.Epochs) != len(m.Owners) {
		return fmt.Errorf("the topic has %d partitions, the run has %d ranks", len(c.Epochs), len(m.Owners))
	}
	if text := c.Epochs[0].About; len(text) > 0 {
		a, err := parseAbout(text)
		if err != nil {
			return err
		}
		if !slices.Equal(a.Owners, m.Owners) {
			return fmt.Errorf("step %d: other ranks own the rows than before (%v, not %v): the run needs a topic of its own", c.Step, a.Owners, m.Owners)
		}
		m.about, m.text = a, text
	}
	for rank, e := range c.Epochs {
		if err := m.applyEpoch(rank, e); err != nil {
			return fmt.Errorf("rank %d, step %d: %w", rank, c.Step, err)
		}
		m.at[rank] = stream.Position{Lineage: e.Lineage, Step: e.To, Next: e.Next}
	}
	m.step, m.written = c.Step, 0
	m.cuts++
	for _, e := range c.Epochs {
		m.written = max(m.written, e.Written)
	}
	return m.checkDigest()
}

func (m *model) applyEpoch(rank int, e *stream.Epoch) error {
	owned, owner := int64(0), m.Owners[rank]
	if owner >= 0 {
		owned = m.shards[owner].Slots()
	}
	x, err := store.ParseContent(e.Slots, e.Rows, e.Extra, owned, m.rowBytes())
	if err != nil {
		return err
	}
	if rank == 0 {
		weights, state := m.model.DenseBytes()
		if int64(len(x.Dense)) != weights+state {
			return fmt.Errorf("the dense part has %d bytes, that of the model %d", len(x.Dense), weights+state)
		}
		m.dense, m.record, m.want = x.Dense, x.Record, x.Digest
		if m.losses, err = x.AddLosses(m.losses); err != nil {
			return err
		}
	}
	if owner < 0 {
		return nil
	}
	h := m.shards[owner]
	if e.Absolute {
		h.Reset()
		h.ListWritten(false)
		m.sums[owner] = digest.Sum{}
		m.reset[owner], m.changed[owner] = true, nil
	}
	m.noteChanged(owner, x.Slots)
	return m.replace(owner, h, x.Slots, x.Rows)
}

// replace replaces rows of an owner, and changes the digest by what they change.
func (m *model) replace(owner int, h *shard.Shard, slots []int32, rows []byte) error {
	touched := h.TouchedBits()
	m.known = m.known[:0]
	for _, slot := range slots {
		if touched[slot>>6]>>(slot&63)&1 != 0 {
			m.known = append(m.known, slot)
		}
	}
	n := m.rowBytes()
	if need := len(m.known) * n; cap(m.before) < need {
		m.before = make([]byte, need)
	}
	before := m.before[:len(m.known)*n]
	if len(m.known) > 0 {
		if err := h.ReadBytes(before, m.known); err != nil {
			return err
		}
	}
	d := shard.NewDigester(h.Options())
	for _, sum := range m.termsOf(d, owner, m.known, before) {
		m.sums[owner].Sub(sum)
	}
	for _, sum := range m.termsOf(d, owner, slots, rows) {
		m.sums[owner].Add(sum)
	}
	return h.StoreRaw(slots, rows)
}

// termsOf returns the terms of rows of an owner in the digest, until the next call.
func (m *model) termsOf(d *shard.Digester, owner int, slots []int32, rows []byte) []digest.Sum {
	place := m.shards[owner].Options().Map
	m.globals = m.globals[:0]
	for _, slot := range slots {
		m.globals = append(m.globals, place.Global(owner, int64(slot)))
	}
	m.terms = d.AppendTerms(m.terms[:0], m.globals, rows, nil)
	return m.terms
}

// checkDigest compares the digest of the model with that of the run, if the run had one.
func (m *model) checkDigest() error {
	if m.want == "" {
		return nil
	}
	if have := m.digest().String(); have != m.want {
		return &Mismatch{m.step, have, m.want}
	}
	return nil
}

func (m *model) digest() digest.Sum {
	weights, _ := m.model.DenseBytes()
	total := m.model.DigestDense(m.dense[:weights], m.dense[weights:])
	for _, s := range m.sums {
		total.Add(s)
	}
	return total
}

// Mismatch is the error of a model that is not that of the run.
type Mismatch struct {
	Step       int64
	Have, Want string
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("the model of step %d has the digest %s, that of the run had %s: it is not published; begin again in another folder",
		e.Step, e.Have, e.Want)
}

// about is the description of a run, with the model that it trains.
type about struct {
	stream.About
	model checkpoint.Model
}

func parseAbout(text []byte) (a about, err error) {
	if err = json.Unmarshal(text, &a.About); err == nil {
		err = json.Unmarshal(a.Model, &a.model)
	}
	if err == nil {
		err = a.model.Check()
	}
	if err == nil && len(a.Owners) == 0 {
		err = errors.New("it has no ranks")
	}
	if err != nil {
		return a, fmt.Errorf("the description of the run: %w", err)
	}
	return a, nil
}

// owners is how many ranks own rows.
func (a *about) owners() (n int) {
	for _, owner := range a.Owners {
		n = max(n, owner+1)
	}
	return n
}

// noteChanged notes that rows of an owner are replaced.
func (m *model) noteChanged(owner int, slots []int32) {
	if !m.readers || m.reset[owner] {
		return
	}
	m.changed[owner] = append(m.changed[owner], slots...)
	if int64(len(m.changed[owner])) > m.shards[owner].Slots() { // cuts without a digest
		m.changed[owner], m.reset[owner] = nil, true
	}
}
