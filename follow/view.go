package follow

import (
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/stream"
)

// View is a model in memory whose digest is that of the run, for readers. It is valid during the calls of Options.Publish and Idle, except for Dense
// and About, which nothing changes, and Changed and Reset, which only Publish may read. Publish may let other goroutines read the rows until it returns.
type View struct {
	Step    int64
	Lineage lineage.ID
	Digest  string
	Written int64 // when the marker was written, in milliseconds since 1970; 0: unknown
	About   stream.About
	Model   checkpoint.Model
	Dense   []byte         // the weights
	Shards  []*shard.Shard // by owner
	// Changed are the slots, by owner, that differ from the View before. Some may be there twice. With Reset all rows of the owner may differ.
	Changed [][]int32
	Reset   []bool
	// Fresh: it is the first View of its model; Shards of the View before are closed.
	Fresh bool
}

// Offer calls Options.Idle, if the model is that of the newest View. It may be called after Run has ended without an error.
func (f *Follower) Offer() {
	if m := f.model; f.o.Idle != nil && m != nil && !m.fresh && m.want != "" {
		f.o.Idle()
	}
}

// Unreadable is the error of a topic that cannot be read. The model of the Follower is right, and Run may be called again.
type Unreadable struct{ Err error }

func (e *Unreadable) Error() string { return e.Err.Error() }
func (e *Unreadable) Unwrap() error { return e.Err }

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

// publishFresh passes a model that was loaded to its readers.
func (f *Follower) publishFresh() error {
	if f.model == nil || !f.model.fresh {
		return nil
	}
	return f.publish()
}

// publish passes the model to its readers, if its digest was compared.
func (f *Follower) publish() error {
	m := f.model
	if f.o.Publish == nil || m.want == "" {
		return nil
	}
	weights, _ := m.model.DenseBytes()
	err := f.o.Publish(&View{Step: m.step, Lineage: m.at[0].Lineage, Digest: m.want, Written: m.written, About: m.About, Model: m.model,
		Dense: m.dense[:weights], Shards: m.shards, Changed: m.changed, Reset: m.reset, Fresh: m.fresh})
	if err != nil {
		return err
	}
	m.fresh = false
	for owner := range m.changed {
		m.changed[owner], m.reset[owner] = m.changed[owner][:0], false
	}
	return nil
}
