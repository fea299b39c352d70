package store

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/shard"
)

// Options describe the store of one rank.
type Options struct {
	Env env.Env
	// Path is the folder of all ranks of this machine. That of the rank is in it.
	Path        string
	Rank, Ranks int
	Lineage     lineage.ID // of the run
	// Shard is the rank's rows, of which there may be none.
	Shard *shard.Shard
	// Past returns the run's past at a seal, on the first rank. It is nil on the others.
	Past func(step int64) (Past, error)
	// Dense returns the dense part of the model, weights and then optimizer state, on the first rank.
	Dense func() ([]byte, error)
	// Digest returns the digest of the model at a commit, empty if it is unknown.
	Digest func(step int64) string
	// Rebuilt reports whether the rank has all its rows. Nil: it always has.
	Rebuilt func() bool
	// Retry is the time between two attempts to write. 0: a second.
	Retry time.Duration
	// Dir opens the folder of the rank. Nil: it is on the machine's disk.
	Dir func(path string) (Dir, error)
	// Stream opens another log than one on a disk: readers elsewhere follow it, and the job does not restart from it.
	Stream func() (Log, error)
	// Stopped reports whether the job ends before its last step, by a signal: little time is left then. Nil: it never does.
	Stopped func() bool
	// Key is the key of the config that names the log, for messages. Empty: store.path.
	Key string
	// Backlog is how many bytes of rows may wait before the store is behind. 0: those of one epoch.
	Backlog int64
}

// Dir is the folder of a log, which can be closed.
type Dir interface {
	rowlog.Dir
	// Begun reports whether the folder has the note that the log begins and no step is durable on all ranks yet.
	Begun() (bool, error)
	// SetBegun makes the note, or removes it. That is durable when it returns.
	SetBegun(begun bool) error
	Close()
}

// Past is the first rank's memory of a run, beside the model.
type Past struct {
	Record []byte    // in a format of the trainer
	Losses []float64 // of steps 1, 2, ...
}
