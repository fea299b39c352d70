package train

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/config"
)

// saveDue reports whether checkpoint.every, in steps, asks for a checkpoint.
func (r *rank) saveDue(step int64) bool {
	every := int64(r.job.cfg.Checkpoint.Every.Steps)
	return every > 0 && step%every == 0
}

// timeToSave reports whether checkpoint.every, a time, has passed on rank 0's
// clock. Its word tells the others.
func (r *rank) timeToSave() bool {
	every := r.job.cfg.Checkpoint.Every.Time
	return r.id == 0 && every > 0 && r.env.Now()-r.lastSave >= every
}

// checkpoint saves the model after a step, where checkpoint.dir asks for it: all
// ranks come here at the same step. A save that fails is reported and training
// goes on, as what was saved before is whole; the last one of a run must succeed.
func (r *rank) checkpoint(step int64, last bool) error {
	c := r.job.cfg.Checkpoint
	if c.Dir == "" || r.saved == step {
		return nil
	}
	if err := r.chaos(step, "checkpoint"); err != nil {
		return err
	}
	r.lastSave = r.env.Now()
	s := &checkpoint.Save{Env: r.env, Dir: c.Dir, Step: step, Generation: r.ep.Generation(), Ranks: r.job.roles.rows,
		Model: r.checkpointModel(), Keep: c.Keep}
	err := r.saveTo(s)
	if errors.As(err, new(*failedSave)) && !last {
		if r.id == 0 {
			r.job.o.Observer.Checkpointed(step, s.Path(), err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	r.saved = step
	if r.id == 0 {
		r.job.o.Observer.Checkpointed(step, s.Path(), nil)
	}
	return nil
}

// failedSave is a checkpoint that could not be written or read; nothing else is
// wrong.
type failedSave struct{ cause error }

func (e *failedSave) Error() string { return e.cause.Error() }
func (e *failedSave) Unwrap() error { return e.cause }

// saveTo writes a checkpoint with all ranks.
func (r *rank) saveTo(s *checkpoint.Save) error {
	var err error
	if r.id == 0 {
		err = s.Begin()
	}
	if _, err := r.agree(err, nil); err != nil {
		return err
	}
	var part, dense checkpoint.Part
	if owner := r.job.roles.owner(r.id); owner >= 0 {
		part, err = s.WriteRows(owner, r.shard)
	}
	if err == nil && r.id == 0 {
		dense, err = r.saveDenseTo(s)
	}
	if fault := r.chaos(s.Step, "written"); fault != nil {
		return fault
	}
	all, err := r.agree(err, append(part.Words(), dense.Words()...))
	if err != nil {
		if r.id == 0 {
			_ = s.Abort() // the error that matters is the first
		}
		return err
	}
	if r.id == 0 {
		err = r.commit(s, all)
	}
	if fault := r.chaos(s.Step, "saved"); fault != nil {
		return fault
	}
	_, err = r.agree(err, nil)
	return err
}

func (r *rank) commit(s *checkpoint.Save, all [][]uint64) error {
	words := len(checkpoint.Part{}.Words())
	parts := []checkpoint.Part{checkpoint.PartOf(all[0][words:])}
	for id, w := range all {
		if r.job.roles.owner(id) < 0 {
			continue
		}
		parts = append(parts, checkpoint.PartOf(w[:words]))
	}
	h, err := json.Marshal(r.history)
	if err != nil {
		return err
	}
	return s.Commit(parts, "", h)
}

func (r *rank) saveDenseTo(s *checkpoint.Save) (checkpoint.Part, error) {
	p := r.model.Params()
	weights, state := make([]byte, p.Weights.Bytes()), make([]byte, r.state.Bytes())
	r.s.Download(weights, p.Weights)
	r.s.Download(state, r.state)
	if err := r.s.Sync(); err != nil {
		return checkpoint.Part{}, err
	}
	return s.WriteDense(weights, state)
}

// agree tells all ranks whether one of them failed, and exchanges words. Where
// one did, all get a failedSave: with their own cause, or that of the first rank
// which has one.
func (r *rank) agree(mine error, words []uint64) ([][]uint64, error) {
	ok := uint64(1)
	if mine != nil {
		ok = 0
	}
	all, err := r.ctl.gather(append([]uint64{ok}, words...))
	if err != nil {
		return nil, err
	}
	failed := -1
	for rank := len(all) - 1; rank >= 0; rank-- {
		if all[rank][0] == 0 {
			failed = rank
		}
		all[rank] = all[rank][1:]
	}
	if failed < 0 {
		return all, nil
	}
	reasons, err := r.ctl.gather(reasonWords(mine))
	if err != nil {
		return nil, err
	}
	if mine == nil {
		mine = reasonOf(failed, reasons[failed])
	}
	return nil, &failedSave{mine}
}

func (r *rank) checkpointModel() checkpoint.Model {
	j := r.job
	m := checkpoint.Model{
		Kind: j.cfg.Model.Kind, Seed: j.cfg.Job.Seed, Width: j.width, RowState: j.sparse.Kind.RowState(j.width),
		Sparse: j.cfg.Optimizer.Sparse.Kind, Dense: j.cfg.Optimizer.Dense.Kind, DenseState: j.denseOpt.Kind.DenseState(1),
	}
	for t, rows := range j.schema.Tables {
		m.Tables = append(m.Tables, checkpoint.Table{Name: tableName(t), Rows: rows})
	}
	for _, t := range r.model.Params().Tensors {
		m.Tensors = append(m.Tensors, checkpoint.Tensor{Name: t.Name, Shape: t.Shape()})
	}
	return m
}

// resume goes on from the newest checkpoint that Options.Resume names, "auto"
// being checkpoint.dir, and reports whether there was one.
func (r *rank) resume() (bool, error) { return r.resumeFrom(r.job.o.Resume) }

func (r *rank) resumeFrom(from string) (bool, error) {
	auto := from == "auto"
	if auto {
		from = r.job.cfg.Checkpoint.Dir
	}
	for before := int64(0); ; {
		c, err := r.find(from, before)
		if err != nil {
			return false, err
		}
		if c == nil && auto && before == 0 {
			return false, nil
		}
		if c == nil {
			return false, config.Errorf("--resume %s: no checkpoint there can be used; see the messages above", from)
		}
		restored := r.restore(c)
		_, err = r.agree(restored, nil)
		if err == nil {
			r.done, r.saved = c.Step, c.Step
			return true, nil
		}
		if !errors.As(err, new(*failedSave)) {
			return false, err
		}
		if r.id == 0 { // with its own reason, or the rank that has one
			r.job.o.Observer.PassedOver(c.Path, err)
		}
		if errors.As(restored, new(*checkpoint.Mismatch)) {
			return false, config.Errorf("%v", restored)
		}
		r.shard.Reset()
		before = c.Step
	}
}

// find opens the checkpoint to resume from: rank 0 looks, the others open what it
// found. There may be none.
func (r *rank) find(from string, before int64) (*checkpoint.Checkpoint, error) {
	var found *checkpoint.Checkpoint
	var err error
	step := uint64(0)
	if r.id == 0 {
		found, err = r.look(from, before)
		if found != nil {
			step = uint64(found.Step)
		}
	}
	all, err := r.agree(err, []uint64{step})
	if err != nil || r.id == 0 {
		return found, err
	}
	step = all[0][0]
	if step == 0 {
		return nil, nil
	}
	if found, err = checkpoint.Open(r.env, from); err == nil && found.Step == int64(step) {
		return found, nil
	}
	found, _, err = checkpoint.Find(r.env, from, int64(step)+1)
	if err == nil && (found == nil || found.Step != int64(step)) {
		err = fmt.Errorf("checkpoint: rank %d does not see step %d in %s, which rank 0 found; is the folder shared by all processes?", r.id, step, from)
	}
	return found, err
}

// look is rank 0's part of find.
func (r *rank) look(from string, before int64) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(r.env, from)
	if err == nil && (before == 0 || c.Step < before) {
		return c, nil
	}
	if !errors.As(err, new(*checkpoint.NotFound)) {
		return nil, err
	}
	c, problems, err := checkpoint.Find(r.env, from, before)
	for _, p := range problems {
		r.job.o.Observer.PassedOver(p.Path, p.Err)
	}
	return c, err
}

// restore sets this rank to a checkpoint.
func (r *rank) restore(c *checkpoint.Checkpoint) error {
	m := r.checkpointModel()
	if err := c.Check(m); err != nil {
		return err
	}
	p := r.model.Params()
	weights, state := make([]byte, p.Weights.Bytes()), make([]byte, r.state.Bytes())
	if err := c.ReadDense(m, weights, state); err != nil {
		return err
	}
	r.s.Upload(p.Weights, weights)
	r.s.Upload(r.state, state)
	if err := r.s.Sync(); err != nil {
		return err
	}
	if owner := r.job.roles.owner(r.id); owner >= 0 {
		if err := c.ReadRows(owner, r.job.roles.rows, r.shard); err != nil {
			return err
		}
	}
	b, err := c.ReadHistory()
	if err != nil {
		return err
	}
	if err := r.readHistory(b); err != nil {
		return fmt.Errorf("%s: the run's history: %w", c.Path, err)
	}
	return nil
}
