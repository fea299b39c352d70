package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/train/resume"
)

// storing is one rank's log of commits on a disk (store.path). All ranks agree on the epochs that are held, and on the step that is
// durable on all. Without store.path its store is nil, and its methods do nothing.
type storing struct {
	protection *protection
	store      *store.Store
	durable    int64  // the last step that is durable on all ranks
	sent       int64  // the newest seal that was reported, or unsent
	warned     bool   // of a log that cannot be written
	dirty      bool   // the last status.dirty
	loaded     bool   // the model was loaded from the log
	digest     string // of that model when it was committed, empty if unknown
}

// RanksOfLogs is the number of ranks of the job whose logs are in a folder of store.path, 0 if it has none.
func RanksOfLogs(e env.Env, path string) int { return store.Ranks(e, path) }

// unsent is storing.sent before the first report of a world.
const unsent = -1

// open opens the log of the rank.
func (l *storing) open(p *protection) (err error) {
	r, j := p.rank, p.rank.job
	l.protection = p
	o := store.Options{Env: j.env, Path: j.cfg.Store.Path, Rank: r.id, Ranks: j.ranks, Lineage: j.run.Lineage, Shard: r.shard,
		Digest: p.digestText, Rebuilt: func() bool { return p.lossLeft().Rows == 0 }}
	if r.id == 0 {
		o.Past, o.Dense = p.pastAt, p.denseNow
	}
	if j.o.StoreDir != nil {
		o.Dir = func(path string) (store.Dir, error) { return j.o.StoreDir(r.id, path) }
	}
	if l.store, err = store.Open(o); err != nil {
		err = explainUnread(j, err)
		if !j.world.Later {
			return config.Errorf("%w", err)
		}
		l.store = store.Broken(o, err) // a lost process of this job may still hold the lock
	}
	if j.tiers() && r.shard.Slots() > 0 {
		r.shard.OpenTier(j.env, l.store.Below())
	}
	return nil
}

// pastAt is the run's past at a seal.
func (p *protection) pastAt(step int64) (store.Past, error) {
	record, err := p.recordAt(step)
	return store.Past{Record: record, Losses: p.rank.history.TrainLoss}, err
}

// denseNow is the dense part of the model, weights and then optimizer state.
func (p *protection) denseNow() ([]byte, error) {
	weights, state, err := p.rank.downloadDense()
	return append(kernels.BytesOf(weights), state...), err
}

// digestText is the digest of the model at a commit, empty if it is unknown.
func (p *protection) digestText(step int64) string {
	if x, known := p.digests.at(step); known {
		return x.String()
	}
	return ""
}

func (l *storing) durableHere() int64 {
	if l.store == nil {
		return 0
	}
	return l.store.Durable()
}

// addTo sets the fields of a status that are about the log.
func (l *storing) addTo(s *status) {
	if l.store != nil {
		s.behind, s.stalled, s.dirty = l.store.Behind(), l.store.Problem() != nil, l.dirty
	}
}

// An epoch ends early once it has written 1/dirtyShare as many rows as fit in memory. Until the log has a row, about logLag steps after its
// epoch, it must be spilled to leave. An early end is in vain where the rows of so few steps do not fit.
const dirtyShare, logLag = 8, 3

// noteDirty notes, at the end of a step, whether many of the rows in memory have been written since the last seal. No other goroutine uses
// rows then.
func (l *storing) noteDirty() {
	if l.store == nil {
		return
	}
	p := l.protection
	h := p.rank.shard
	frames, written := int64(h.Frames()), int64(h.Journal().Written())
	perStep := written / max(1, p.rank.done-p.commits.Sealed())
	l.dirty = frames > 0 && frames < h.Slots() && written >= frames/dirtyShare && logLag*perStep <= frames
}

// endsEarly reports whether the epoch ends for the sake of a rank, by the last status, which all ranks have. While a log is behind or
// cannot be written, that would not help.
func (l *storing) endsEarly() bool {
	if l.store == nil {
		return false
	}
	last := l.protection.rank.conns.ctl.last
	return slices.ContainsFunc(last, func(s status) bool { return s.dirty }) &&
		!slices.ContainsFunc(last, func(s status) bool { return s.behind || s.stalled })
}

// received takes the reports of all ranks after a seal.
func (l *storing) received(all []sealReport) {
	if l.store == nil {
		return
	}
	l.durable = all[0].durable
	for _, x := range all[1:] {
		l.durable = min(l.durable, x.durable)
	}
	l.store.Settle(min(l.durable, l.protection.commits.Committed()))
}

// takeStatus warns, on rank 0, if a log cannot be written, and if it can again.
func (l *storing) takeStatus(all []status) {
	if l.store == nil || l.protection.rank.id != 0 {
		return
	}
	observer := l.protection.rank.job.o.Observer
	for id, s := range all {
		if !s.stalled {
			continue
		}
		if !l.warned {
			why := fmt.Errorf("the log of rank %d cannot be written on its machine", id)
			if mine := l.store.Problem(); id == 0 && mine != nil {
				why = mine
			}
			observer.Warned(fmt.Sprintf("%v; training continues, and nothing after step %d would survive the loss of all processes; free or replace the disk",
				why, l.durable))
		}
		l.warned = true
		return
	}
	if l.warned {
		l.warned = false
		observer.Warned(fmt.Sprintf("store.path: the logs of all ranks are written again; durable up to step %d", l.durable))
	}
}

// holdIfBehind holds the next epoch if any rank was behind in the last status, which all ranks have.
func (l *storing) holdIfBehind() {
	if l.store != nil {
		l.store.Hold(slices.ContainsFunc(l.protection.rank.conns.ctl.last, func(s status) bool { return s.behind }))
	}
}

// lose notes that the rank is new to the job.
func (l *storing) lose() {
	if l.store != nil {
		l.store.Lose()
	}
}

// drainFor is how long the end of a job waits for its last epochs to become durable.
const drainFor = time.Minute

// finish writes the last epoch, also if it is held, and waits until it is durable.
func (l *storing) finish() {
	if l.store != nil {
		l.store.Flush()
		l.store.Complete(l.protection.rank.done)
		l.store.Drain(drainFor)
	}
}

// shareDurable finds the last step that is durable on all ranks, at the end of a job.
func shareDurable(p *protection) error {
	if p == nil || p.log.store == nil {
		return nil
	}
	all, err := p.rank.conns.ctl.gather([]uint64{uint64(p.log.durableHere())})
	if err != nil {
		return err
	}
	p.log.durable = p.log.durableHere()
	for _, w := range all {
		p.log.durable = min(p.log.durable, int64(w[0]))
	}
	return nil
}

// durableStep is the last step that is durable on all ranks, as far as this rank knows.
func (p *protection) durableStep() int64 {
	if p == nil {
		return 0
	}
	return p.log.durable
}

// isStored reports whether the model was loaded from the log.
func (p *protection) isStored() bool { return p != nil && p.log.loaded }

// stored describes the logs of all ranks.
type stored struct {
	step int64 // the last one that all of them hold, 0 if there is none
	most int64 // the last one that any of them holds
	// stale is the reason if the log of a rank is not its newest one. Then step is 0.
	stale error
	// begun reports whether no step was durable on all ranks, by the notes of all of them.
	begun bool
}

// findStored finds the steps that the logs hold. All ranks call it, before commits begin.
func (p *protection) findStored() (x stored, err error) {
	if p == nil || p.log.store == nil {
		return x, nil
	}
	ctl, s := p.rank.conns.ctl, p.log.store
	all, err := ctl.gather([]uint64{uint64(s.Step()), boolWord(s.HasBegun()), uint64(s.Settled())})
	if err != nil {
		return x, err
	}
	first, settled := 0, int64(0) // first: the rank whose log ends before those of others
	x.begun = true
	for id, w := range all {
		if w[0] < all[first][0] {
			first = id
		}
		x.most, settled = max(x.most, int64(w[0])), max(settled, int64(w[2]))
		x.begun = x.begun && w[1] == 1
	}
	if x.step = int64(all[first][0]); x.step > 0 && x.step < settled {
		x.stale = fmt.Errorf("store.path: %s: the log of rank %d ends at step %d, and those of all ranks had step %d: "+
			"it is an old one, of another machine or a copy", p.rank.job.cfg.Store.Path, first, x.step, settled)
		x.step = 0
	}
	all, err = ctl.gather([]uint64{boolWord(s.Holds(x.step))})
	if slices.ContainsFunc(all, func(w []uint64) bool { return w[0] == 0 }) { // a rank wrote all its rows anew after that step
		x.step = 0
	}
	return x, err
}

func boolWord(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// resumeStored sets the rank to the model of the last step that the logs of all ranks hold, unless there is a checkpoint of a later
// step. It reports whether it did.
func (p *protection) resumeStored(x stored, search *resume.Search) (bool, error) {
	if x.most == 0 {
		return false, nil
	}
	r := p.rank
	path := r.job.cfg.Store.Path
	again := search.Rerun || r.job.world.Later // the logs are those of this job
	if x.step == 0 && (again || x.begun) {
		switch {
		case r.id != 0:
		case x.stale != nil:
			r.job.o.Observer.Warned(x.stale.Error() + "; the logs are not used")
		case !again:
			r.job.o.Observer.Warned(fmt.Sprintf("store.path: %s: the job before ended before a step was durable on all ranks; the logs begin anew", path))
		}
		return false, nil
	}
	c, err := findCheckpoint(search, r.conns.ctl, r.job)
	if err != nil || c != nil && c.Step >= x.step && (x.step > 0 || c.Step >= x.most) {
		return false, err
	}
	switch {
	case x.stale != nil:
		return false, config.Errorf("%w; put its newest log there, or remove the logs of all ranks to do without them", x.stale)
	case x.step == 0:
		return false, config.Errorf("store.path: %s: some ranks have a log, up to step %d, and others have none, or another part of the run: mount the disks that are missing, or remove the logs of all ranks to do without them",
			path, x.most)
	case x.step > r.job.steps:
		return false, config.Errorf("store.path: %s holds this run up to step %d, and it ends at step %d (%s); let it train longer, or remove the folder",
			path, x.step, r.job.steps, r.job.lengthKey())
	}
	if err := p.log.load(x.step); err != nil {
		if again && errors.As(err, new(*failedSave)) {
			r.shard.Reset()
			return false, nil
		}
		return false, err
	}
	if r.id == 0 && !search.Rerun {
		r.job.origin = &resume.Origin{Path: path, Step: x.step, Lineage: r.lineage.Lineage.Short()}
	}
	return true, keeper{r}.adoptKept(r.job.bestModels().Dir)
}

// load sets the rank to the model after a step that its log holds, and the run's past.
func (l *storing) load(step int64) error {
	r := l.protection.rank
	ctl := r.conns.ctl
	past, dense, digest, err := l.store.Restore(step, l.putStored)
	if err != nil {
		advice := "if its disk is full or fails, free or repair it, and resume again"
		if store.IsDamage(err) {
			advice = "remove the logs of all ranks, and resume from a checkpoint"
		}
		err = fmt.Errorf("store.path: rank %d cannot continue its log of step %d: %w; %s", r.id, step, err, advice)
	}
	if _, err := ctl.agree(err, nil); err != nil {
		return err
	}
	params := r.model.Params()
	if n := params.Weights.Bytes() + r.state.Bytes(); r.id == 0 && len(dense) != n {
		return fmt.Errorf("store.path: %s: the dense part has %d bytes, the model has %d", r.job.cfg.Store.Path, len(dense), n)
	}
	all, err := ctl.gather([]uint64{uint64(len(past.Record)), uint64(len(past.Losses))})
	if err != nil {
		return err
	}
	if r.id != 0 {
		dense = make([]byte, params.Weights.Bytes()+r.state.Bytes())
		past.Record, past.Losses = make([]byte, all[0][0]), make([]float64, all[0][1])
	}
	for _, b := range [][]byte{dense, past.Record, kernels.BytesOf(past.Losses)} {
		if err := ctl.comm.Broadcast(kernels.HostBuffer(b), 0).Wait(); err != nil {
			return err
		}
	}
	r.s.Upload(params.Weights, dense[:params.Weights.Bytes()])
	r.s.Upload(r.state, dense[params.Weights.Bytes():])
	if err := r.s.Sync(); err != nil {
		return err
	}
	var record runRecord
	if err := json.Unmarshal(past.Record, &record); err != nil {
		return fmt.Errorf("store.path: the run's past: %w", err)
	}
	r.history, r.lineage = record.History, r.job.run
	r.lineage.Lineage, r.lineage.Forks = record.Lineage, record.Forks
	if r.history.TrainLoss = nil; r.job.keepsLosses(r.id) {
		r.history.TrainLoss = append(r.lossRoom(), past.Losses...)
	}
	r.done, r.checkpoints.saved, r.evaluated = step, 0, 0
	for _, e := range r.history.Eval {
		r.evaluated = max(r.evaluated, e.Step)
	}
	l.loaded, l.digest, l.durable, r.checkpoints.loaded = true, digest, step, nil
	return nil
}

// putStored sets rows of the log, or adopts them if they stay on the disk.
func (l *storing) putStored(slots []int32, rows []byte) error {
	h := l.protection.rank.shard
	if rows == nil {
		h.Adopt(slots)
		return nil
	}
	return h.StoreRaw(slots, rows)
}
