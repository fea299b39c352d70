package train

import (
	"encoding/json"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lineage"
)

// checkpointer saves and loads checkpoints of one rank's part. All ranks save and load at
// the same steps.
type checkpointer struct {
	id       int
	part     *part
	topology *topology
	probe    *probe.Probe
	// reported is called on rank 0 after each attempt to save.
	reported func(step int64, path string, err error)
	warnOnce func(warning, string) // of the job, on rank 0

	loaded *checkpoint.Checkpoint // the model was last loaded from it; nil: from none

	saved    int64            // the step of the last checkpoint
	lastSave time.Duration    // when the last save began, or the run
	lastPath string           // of the last checkpoint of this run; empty: there is none
	recipe   []byte           // of the data, from the first save on
	lock     *checkpoint.Lock // on checkpoint.dir, of rank 0

	saving      *saving    // the save beside training; nil: there is none
	again       int64      // a save is due after this step, since an earlier one was lost or took long; 0: none is
	leaving     *env.Event // files of a save that was given up are removed; nil: there are none
	late        int        // saves during which another one was due
	rowsPerStep int        // Options.SaveRows
	session     string     // Options.SaveSession

	increments increments
}

// isDue reports whether a checkpoint is due after a step, if checkpoint.every counts steps.
func (k *checkpointer) isDue(step int64) bool {
	every := int64(k.topology.cfg.Checkpoint.Every.Steps)
	return every > 0 && step%every == 0
}

// isTimeDue reports whether a checkpoint is due by rank 0's clock, if checkpoint.every is a
// time. The status of rank 0 reports it to the others.
func (k *checkpointer) isTimeDue() bool {
	every := k.topology.cfg.Checkpoint.Every.Time
	return k.id == 0 && every > 0 && k.part.env.Now()-k.lastSave >= every
}

// lockPatience is how long a run waits at its start for the lock of checkpoint.dir. Another
// run may hold it for a moment, to see whether it is free.
const lockPatience = 100 * time.Millisecond

// takeLock takes the lock on checkpoint.dir, on rank 0: no other run saves there then.
func (k *checkpointer) takeLock() (err error) {
	dir := k.topology.cfg.Checkpoint.Dir
	if k.id != 0 || dir == "" || k.lock.Holds() {
		return nil
	}
	if k.lock, err = checkpoint.Hold(k.part.env, dir, lockPatience); err != nil {
		return config.Errorf("%w", err)
	}
	_ = k.lock.RemoveLeftovers(k.part.env) // of killed jobs; a save, of which this one may have none, reports errors of the folder
	return nil
}

// retakeLock takes the lock if this process does not hold it: rank 0 has moved here, or the
// folder was removed. A save is safe without the lock, but leaves more files behind.
func (k *checkpointer) retakeLock() {
	if k.lock.Holds() {
		return
	}
	k.lock.Close()
	k.lock, _ = checkpoint.Hold(k.part.env, k.topology.cfg.Checkpoint.Dir, 0) // the save reports errors of the folder
}

// saveRequest is the content of one checkpoint beside the part.
type saveRequest struct {
	step       int64
	generation uint64 // of the world that saves
	run        *lineage.Run
	history    *history
	recipe     *data.Recipe // of the data
	digest     string       // of the model; empty without job.digests
	last       bool         // the run ends here: the save must succeed
}

// newSave describes a checkpoint that this rank helps to save.
func (k *checkpointer) newSave(q saveRequest) *checkpoint.Save {
	cfg := k.topology.cfg.Checkpoint
	return &checkpoint.Save{Env: k.part.env, Dir: cfg.Dir, Step: q.step, Generation: q.generation, Session: k.session,
		Ranks: k.topology.roles.rows, Model: k.topology.checkpointModel(), Run: q.run, Keep: cfg.Keep}
}

// makeFolder makes the folder to write to, on rank 0.
func (k *checkpointer) makeFolder(s *checkpoint.Save) error {
	k.retakeLock()
	s.Alone = k.lock.Holds()
	return s.Begin()
}

// publishFiles writes the manifest and gives the checkpoint its name, on rank 0. All holds the
// files that each rank wrote.
func (k *checkpointer) publishFiles(s *checkpoint.Save, all [][]uint64, q saveRequest) error {
	n := len(checkpoint.Part{}.Words())
	parts := []checkpoint.Part{checkpoint.PartOf(all[0][n:])}
	for id, x := range all {
		if k.topology.roles.ownerOf(id) >= 0 {
			parts = append(parts, checkpoint.PartOf(x[:n]))
		}
	}
	text, err := json.Marshal(*q.history)
	if err != nil {
		return err
	}
	if k.recipe == nil && q.recipe.HasNames() {
		k.recipe = q.recipe.Encode()
	}
	s.Recipe, s.Earlier = k.recipe, k.lastPath
	if err := s.Commit(parts, q.digest, text); err != nil {
		return err
	}
	k.lastPath = s.Path()
	return nil
}

// loadPart sets the part to that of a checkpoint, and returns the run's history as JSON.
func (k *checkpointer) loadPart(c *checkpoint.Checkpoint) (history []byte, err error) {
	m := k.topology.checkpointModel()
	if err := c.Check(m); err != nil {
		return nil, err
	}
	weights, state := make([]float32, k.part.model.Params().Floats()), make([]byte, k.part.state.Bytes())
	if err := c.ReadDense(m, kernels.BytesOf(weights), state); err != nil {
		return nil, err
	}
	if err := k.part.uploadDense(weights, state); err != nil {
		return nil, err
	}
	if owner := k.topology.roles.ownerOf(k.id); owner >= 0 {
		if err := c.ReadRows(owner, k.topology.roles.rows, k.part.shard); err != nil {
			return nil, err
		}
	}
	k.loaded = c
	return c.ReadHistory()
}
