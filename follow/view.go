package follow

import (
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/stream"
)

// View is a model in memory whose digest is that of the run, for readers. It is valid during the calls of Options.Publish and Idle,
// except for Dense and About, which nothing changes, and Changed and Reset, which only Publish may read. Publish may let other
// goroutines read the rows until it returns.
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

// Unreadable is the error of a topic that cannot be read. The model of the Follower is right, and Run may be called again.
type Unreadable struct{ Err error }

func (e *Unreadable) Error() string { return e.Err.Error() }
func (e *Unreadable) Unwrap() error { return e.Err }
