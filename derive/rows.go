package derive

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/stream"
)

// Options describe a Rows.
type Options struct {
	Env   env.Env
	Topic stream.Topic
	As    Encoding
	// Backlog is how many bytes of records may wait for the topic; 0: DefaultBacklog.
	Backlog int64
	// Report is called for each marker that the topic has.
	Report func(Marker)
	// Warn is called with a text for the user.
	Warn func(string)
}

// DefaultBacklog is the Options.Backlog of a Rows that names none.
const DefaultBacklog = 256 << 20

// stallAfter is how long a topic takes nothing before that is reported.
const stallAfter = 10 * time.Second

// Rows sends the rows of the models that a follower publishes. All of its methods are for the goroutine of the follower.
type Rows struct {
	o    Options
	sink *sink
	tail *tail // of the topic, when it was opened; nil: it was compared with a model

	view    *follow.View // nil: nothing was published
	form    form
	pending []*slotSet // by owner: rows that differ from those in the topic, or may
	begin   bool       // a Header is sent before them
	ahead   int64      // the step of the topic's marker, while the model is behind it; else -1
	due     bool       // the marker of view is not handed to the sink

	rows    int64 // since the last marker
	sum     Error // of them
	warned  bool  // that the topic takes nothing
	crowded bool  // it was reported that no marker follows
}

// form is the form of the rows of a model.
type form struct {
	Header
	place  placement.Map
	tables []string
	owners []owner
	row    int // the most bytes of a record
}

// owner is the rows of one owner.
type owner struct {
	rows    []float32 // (slots, stride); the weights are the first of each
	stride  int
	touched []uint64
}

// New opens the topic, which is made if it does not exist.
func New(o Options) (*Rows, error) {
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	part, t, err := openTail(o.Env, o.Topic)
	if err != nil {
		return nil, err
	}
	return &Rows{o: o, sink: startSink(o.Env, o.Topic, part, t.next), tail: t, ahead: -1}, nil
}

// Close ends the sending. The next follower finds rows that were not sent.
func (r *Rows) Close() { r.sink.closeSink() }

// Publish notes the rows that a model changes, and sends them if the topic is free. It is a follow.Options.Publish, and never fails.
func (r *Rows) Publish(v *follow.View) error {
	if v.Fresh {
		r.view = nil // its shards are closed
	}
	r.collectBatch()
	if v.Fresh || r.view == nil {
		r.beginModel(v)
	} else {
		r.noteChanges(v)
	}
	r.view, r.due = v, true
	if v.Step >= r.ahead && r.ahead >= 0 {
		r.catchUp(v)
	}
	r.sendNext()
	return nil
}

// Idle sends the rest of the newest model, if the topic is free. It is a follow.Options.Idle.
func (r *Rows) Idle() {
	r.collectBatch()
	r.sendNext()
}

// Settled reports whether the topic has the marker of the newest model, or a later one.
func (r *Rows) Settled() bool {
	r.collectBatch()
	return r.sink.isFree() && (!r.due || r.ahead >= 0)
}

// beginModel begins with a model.
func (r *Rows) beginModel(v *follow.View) {
	before := r.tail
	r.form, r.tail, r.ahead = formOf(v, r.o.As), nil, -1
	r.pending = nil
	for _, h := range v.Shards {
		r.pending = append(r.pending, newSlotSet(h.Slots()))
	}
	if before == nil || !r.fitsTopic(before, v) {
		r.sendAll()
		return
	}
	for key := range before.rows {
		if !r.addKey(key) {
			r.sendAll()
			return
		}
	}
	r.ahead = before.marker.Step
	r.tail = before
}

// fitsTopic reports whether the topic has the rows of a model, or of a later step of its run.
func (r *Rows) fitsTopic(t *tail, v *follow.View) bool {
	m := t.marker
	return !t.void && m.Lineage == v.Lineage.String() && m.As == r.o.As && fmt.Sprint(m.Parts) == fmt.Sprint(r.form.Parts) &&
		(v.Step < m.Step || v.Step == m.Step && v.Digest == m.Digest)
}

// sendAll notes that the topic needs all rows.
func (r *Rows) sendAll() {
	r.begin, r.ahead, r.tail = true, -1, nil
	r.rows, r.sum, r.crowded = 0, Error{}, false
	for i, o := range r.form.owners {
		r.pending[i].removeAll()
		r.pending[i].addAll(o.touched)
	}
}

// addKey notes that the row of a key is not as in the topic. It reports whether there is such a row.
func (r *Rows) addKey(key string) bool {
	table, id, err := parseKey([]byte(key))
	for t, name := range r.form.tables {
		if err == nil && name == table && id >= 0 && id < r.form.place.TableRows(t) {
			g, n := r.form.place.Base[t]+id, int64(len(r.pending))
			r.pending[g%n].addSlot(g / n)
			return true
		}
	}
	return false
}

// noteChanges notes the rows that a View changes.
func (r *Rows) noteChanges(v *follow.View) {
	for i, set := range r.pending {
		if v.Reset[i] {
			set.addAll(r.form.owners[i].touched)
			continue
		}
		for _, slot := range v.Changed[i] {
			set.addSlot(int64(slot))
		}
	}
}

// catchUp is called once the model is as far as the last marker of the topic. If it is at that marker, the topic lacks nothing, except
// for rows that may follow the marker already.
func (r *Rows) catchUp(v *follow.View) {
	t := r.tail
	r.tail, r.ahead = nil, -1
	switch {
	case v.Step > t.marker.Step: // the rows that changed since the step at which the follower began are noted
	case v.Digest != t.marker.Digest:
		r.sendAll()
	default:
		for _, set := range r.pending {
			set.removeAll()
		}
		for key := range t.rows {
			r.addKey(key)
		}
		r.due = len(t.rows) > 0
	}
}

// collectBatch takes the batch that the sink has sent, and reports whether the topic takes records.
func (r *Rows) collectBatch() {
	if b := r.sink.takeSent(); b != nil {
		switch {
		case b.lost || b.foreign:
			if b.foreign {
				r.warn("another program writes to %s too: all rows are sent again; end one of them, or use another topic", r.o.Topic.Name())
			}
			if r.view != nil {
				r.sendAll()
				r.due = true
			}
		case b.marker != nil && r.o.Report != nil:
			r.o.Report(*b.marker)
		}
	}
	switch d, err := r.sink.stalledFor(); {
	case !r.warned && err != nil && d >= stallAfter:
		r.warned = true
		r.warn("%s has taken nothing for %v: %v; rows wait, and readers see fewer markers", r.o.Topic.Name(), stallAfter, err)
	case r.warned && err == nil:
		r.warned = false
		r.warn("%s takes rows again", r.o.Topic.Name())
	}
}

func (r *Rows) warn(format string, args ...any) {
	if r.o.Warn != nil {
		r.o.Warn(fmt.Sprintf(format, args...))
	}
}

// sendNext hands the next batch to the sink, if that is free: as many rows as fit, and the marker behind the last one.
func (r *Rows) sendNext() {
	if !r.due || r.ahead >= 0 || !r.sink.isFree() {
		return
	}
	b := &batch{}
	if r.begin {
		r.addJSON(b, keyBegin, r.form.Header)
		r.begin = false
	}
	most := max(1, r.o.Backlog/int64(r.form.row+recordBytes))
	for i, set := range r.pending {
		most -= set.removeFirst(most, func(slot int64) { r.addRow(b, i, slot) })
	}
	if most > 0 || r.countPending() == 0 {
		r.addMarker(b)
	} else if all := r.countAll(); r.rows > 2*all && !r.crowded {
		r.crowded = true
		r.warn("rows change faster than %s takes them: it has no marker since %d rows, and the model has %d; use a larger backlog",
			r.o.Topic.Name(), r.rows, all)
	}
	r.sink.handOver(b)
}

func (r *Rows) countPending() (n int64) {
	for _, set := range r.pending {
		n += set.n
	}
	return n
}

// countAll is how many rows the run has written.
func (r *Rows) countAll() (n int64) {
	for _, h := range r.view.Shards {
		n += h.Touched()
	}
	return n
}

// addRow adds the row in a slot of an owner.
func (r *Rows) addRow(b *batch, i int, slot int64) {
	o, g := &r.form.owners[i], r.form.place.Global(i, slot)
	t := r.form.place.Table(g)
	text := keyOf(b.makeRoom(r.form.row), r.form.tables[t], g-r.form.place.Base[t])
	key := len(text)
	if o.touched[slot>>6]>>(slot&63)&1 != 0 {
		at := int(slot) * o.stride
		text = r.o.As.Append(text, r.form.Parts, o.rows[at:at+r.form.Dim], &r.sum)
	}
	b.addRecord(text, key)
	r.rows++
}

// addMarker adds the marker of the View.
func (r *Rows) addMarker(b *batch) {
	v := r.view
	b.marker = &Marker{Step: v.Step, Digest: v.Digest, Header: r.form.Header, Rows: r.rows, Total: r.countAll(),
		MaxError: r.sum.Max, MeanError: r.sum.Mean(), Saturated: r.sum.Saturated, NotFinite: r.sum.NotFinite, Written: v.Written}
	r.addJSON(b, keyMarker, b.marker)
	r.due, r.rows, r.sum, r.crowded = false, 0, Error{}, false
}

func (r *Rows) addJSON(b *batch, key string, x any) {
	text, err := json.Marshal(x)
	if err != nil {
		panic(err) // it has finite numbers and texts
	}
	b.records = append(b.records, stream.Keyed{Key: []byte(key), Value: text})
}

// formOf is the form of the rows of a View.
func formOf(v *follow.View, as Encoding) (f form) {
	parts := []int{v.Model.Width}
	if len(v.Model.Parts) > 0 {
		parts = nil
		for _, p := range v.Model.Parts {
			parts = append(parts, p.Width)
		}
	}
	f.Header = Header{Lineage: v.Lineage.String(), As: as, Dim: v.Model.Width, Parts: parts}
	f.place = v.Shards[0].Options().Map
	for _, t := range v.Model.Tables {
		f.tables = append(f.tables, t.Name)
		f.row = max(f.row, len(keyOf(nil, t.Name, math.MaxInt64)))
	}
	f.row += as.Bytes(parts)
	for _, h := range v.Shards {
		rows, touched := shard.Memory(h)
		o := owner{stride: rows.Stride, touched: touched}
		if h.Slots() > 0 {
			o.rows = kernels.HostView[float32](rows.Buf)
		}
		f.owners = append(f.owners, o)
	}
	return f
}
