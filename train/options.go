package train

import (
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/stream"
)

// Options are the parts of a job beside its config.
type Options struct {
	// Stop is called once per step by every rank. If it returns true on any rank, the step
	// is the last. With EvalOnly it is called once per batch, and the job ends with ErrStopped.
	Stop func() bool
	// Until, if not 0, is the last step that is trained. The run ends as after its last step, but its
	// learning rates are those of a run of full length.
	Until int64
	// Observer is called by rank 0's goroutine.
	Observer Observer
	// Meter, if set, is updated by the ranks of this process.
	Meter *Meter
	// Progress is called while data is converted.
	Progress func(data.Progress) error
	// SaveTo is the path of the final model (safetensors). Empty: it is not saved.
	SaveTo string
	// Saved is the path that the final model of an earlier run was given. It may be that run's best model.
	Saved string
	// WrapStream, if set, may wrap the stream of a rank, to measure its operations.
	WrapStream func(rank int, s kernels.Stream) kernels.Stream
	// WrapDevice, if set, may wrap the device of the ranks, for measurements that do not take the memory of the job. It is then not
	// checked whether the job fits into the memory of the machine.
	WrapDevice func(kernels.Device) kernels.Device
	// Recipe is the recipe of the model's data, of which nothing is counted then. Nil: the training
	// data is counted if the config requires it.
	Recipe *data.Recipe
	// Source, if set, is the training data, in place of that of the config. The job closes it. It is for measurements of synthetic data:
	// the lineage of a model has the data of the config.
	Source data.Source
	// World defines the ranks of this process. Nil: it has all ranks.
	World *World
	// Resume is the checkpoint to resume from: its folder, a folder of several, or "auto" for
	// checkpoint.dir. Empty: the run starts without one.
	Resume string
	// Restore makes a checkpoint of the topic that Resume names. Nil: it names none.
	Restore *Restoring
	// Allow names keys of the config that may differ from those of the run that a
	// checkpoint named by Resume belongs to: this run then is a fork of that one.
	Allow []string
	// TraceTo is the path of the job's timeline (Chrome trace). Empty: there is none.
	TraceTo string
	// Inject, if set, is called at each point that a rank reaches, and may inject a fault:
	// its error ends the rank.
	Inject func(rank int, step int64, at probe.Point) error
	// Sinks make the sinks of each rank that take the rows of every commit, beside the parity
	// of ec.code. If there are any, the job commits epochs of ec.commit_every steps also with
	// ec.code = "none".
	Sinks []commit.SinkFactory
	// Frames is, with store.tier "file", the number of rows of each rank that are in memory, with the rows that are read
	// ahead, instead of as many as fit in store.dram_bytes. It is for tests and measurements.
	Frames int
	// Below makes the place of a rank's rows that are not in memory, instead of the logs of store.path. No row is read ahead,
	// or kept for the steps to come. It needs Frames, and is for comparisons.
	Below func(rank int, h *shard.Shard) shard.Below
	// StoreDir opens a folder of a rank in store.path. Nil: it is on the machine's disk.
	StoreDir func(rank int, path string) (store.Dir, error)
	// Topic opens the topic that stream.to names.
	Topic func(e env.Env, to string) (stream.Topic, error)
	// Samples opens the topic that data.train names.
	Samples func(e env.Env, from string) (stream.Topic, error)
	// Session is a random number, drawn by each process.
	Session uint64
	// RebuildRows fixes how many shards each step rebuilds, or more if the next step reads
	// more. Zero: as many as fit the time budget.
	RebuildRows int
	// SaveRows fixes how many rows of a save are copied after each step. Zero: as many as take a small
	// share of the step.
	SaveRows int
	// SaveSession is a random text that all processes of the job have, and no other job: part of the names of checkpoints that
	// are being written. Empty: they may have the names of those of another job, where checkpoint.dir has no locks.
	SaveSession string
	// PauseSaves makes training wait for each save, not only for the last one. It is for comparisons.
	PauseSaves bool
	// Audit, if set, is called on each owner of rows with its state, when the epoch that ended
	// with a step is sealed.
	Audit func(step int64, a *commit.Audit)
	// Check checks that every read of a row returns its current value (package lrpp), as
	// debug builds do.
	Check bool
	// EvalOnly skips training: the model of model.init_from is evaluated.
	EvalOnly bool
}

// Restoring makes a checkpoint of a topic.
type Restoring struct {
	// Dir is the folder of the checkpoint. All processes share it.
	Dir string
	// Make makes the checkpoint. Rank 0 calls it, and the others wait. Check is called with each model before its rows are read: its
	// error is that of another model.
	Make func(check func(checkpoint.Model) error) (Restored, error)
}

// Restored is a checkpoint that was made of a topic.
type Restored struct {
	Path   string // of the checkpoint, in Restoring.Dir
	Source string // names the topic
}
