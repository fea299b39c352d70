package train

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/train/modelfile"
)

// The decisions of a run on its evaluations: the model to keep, the learning rates, an early end. All
// follow from the history, which is equal on all ranks and is rolled back, resumed and restored with
// the model. An evaluation is in the history once every update before it is applied and every lost
// row is rebuilt.
//
// With train.keep = "best" the ranks write the model to a file of its own whenever an evaluation
// is the best so far. The files are in checkpoint.dir, or beside the final model if there is none.
// A file stays as long as the run may go back to a step before the next better evaluation.

// Kept is a model that was the best when it was evaluated.
type Kept struct {
	Step int64 `json:"step"`
	// Digest is that of its file. It is empty at the end of a job that writes the model once
	// only, as its last.
	Digest string `json:"digest,omitempty"`
}

// judgeEvals returns the decisions on a run's evaluations: the factor of the learning rates, and
// whether it ends since none was better for train.patience of them. Evaluations after a step that
// is no multiple of train.eval_every do not count: a run that was not stopped there has none.
func (j *job) judgeEvals(evals []Eval) (factor float64, isOver bool) {
	t := j.cfg.Train
	if factor = 1; t.Patience == 0 && t.PlateauPatience == 0 || j.o.EvalOnly {
		return factor, false
	}
	var best *Eval
	stale, level := 0, 0 // evaluations since the best one, and since the rates fell
	for i := range evals {
		e := &evals[i]
		if !j.isEvalStep(e.Step) {
			continue
		}
		if best == nil || isBetter(t.BestBy, e, best) {
			best, stale, level = e, 0, 0
			continue
		}
		stale, level = stale+1, level+1
		if level == t.PlateauPatience {
			factor, level = float64(factor*t.PlateauFactor), 0
		}
	}
	return factor, t.Patience > 0 && stale >= t.Patience
}

// isBetter reports whether an evaluation is better than another. An AUC that is not defined is the
// worst.
func isBetter(by string, a, b *Eval) bool {
	if by == "auc" {
		return a.AUC > b.AUC || math.IsNaN(b.AUC) && !math.IsNaN(a.AUC)
	}
	return a.Logloss < b.Logloss || math.IsNaN(b.Logloss) && !math.IsNaN(a.Logloss)
}

// keepsBest reports whether the job keeps the model of its best evaluation.
func (j *job) keepsBest() bool {
	return j.o.SaveTo != "" && j.cfg.Train.Keep == "best" && j.eval != nil && !j.o.EvalOnly
}

// bestModels is the folder of the models that are kept.
func (j *job) bestModels() modelfile.Best {
	b := modelfile.Best{Env: j.env, Dir: j.cfg.Checkpoint.Dir}
	if b.Dir == "" {
		b.Dir = filepath.Dir(j.o.SaveTo)
	}
	return b
}

// kept returns the newest model kept, and its evaluation. Both are nil if there is none.
func (h *history) kept() (*Kept, *Eval) {
	if len(h.Kept) == 0 {
		return nil, nil
	}
	k := &h.Kept[len(h.Kept)-1]
	for i := range h.Eval {
		if h.Eval[i].Step == k.Step {
			return k, &h.Eval[i]
		}
	}
	return nil, nil
}

// keeper keeps the models of a rank's run.
type keeper struct{ rank *rank }

// keepBest keeps the model if its evaluation e is the best so far. All ranks call it. last is true
// at the end of the job, where saveModel writes the model.
func (x keeper) keepBest(e Eval, last bool) error {
	r := x.rank
	j := r.job
	if !j.keepsBest() {
		return nil
	}
	k, best := r.history.kept()
	if best != nil && (k.Step >= e.Step || !isBetter(j.cfg.Train.BestBy, &e, best)) {
		return nil
	}
	if last && (e.Step == j.steps || !j.coded()) { // no step follows, even if a rank is lost now
		r.history.Kept = append(r.history.Kept, Kept{Step: e.Step})
		return nil
	}
	state, err := r.digestModel()
	if err != nil {
		return err
	}
	if r.id == 0 {
		_ = j.bestModels().Make() // writeModel returns the error
	}
	sum, err := x.writeModel(j.bestModels().Path(e.Step, r.lineage.Lineage.Short()), e.Step, state)
	if err != nil && !errors.As(err, new(*modelfile.NotWritten)) {
		return err
	}
	all, err := r.conns.ctl.agree(err, []uint64{sum.Hi, sum.Lo})
	if errors.As(err, new(*failedSave)) {
		x.warnNotKept(e.Step, err)
		return nil
	}
	if err != nil {
		return err
	}
	r.history.Kept = append(r.history.Kept, Kept{e.Step, digest.Sum{Hi: all[0][0], Lo: all[0][1]}.String()})
	return x.pruneKept(e.Step)
}

// writeModel writes the model after a step to a file. The digest is that of the model with its
// optimizer state, on rank 0.
func (x keeper) writeModel(path string, step int64, state string) (digest.Sum, error) {
	r := x.rank
	j := r.job
	var about map[string]string
	if r.id == 0 {
		about = modelfile.Describe(j.cfg, r.lineage, step, state, j.o.Recipe)
	}
	return r.modelFile(&j.topology, r.id).Save(path, about, r.conns.ctl.comm, j.roles.first)
}

// warnNotKept warns on rank 0 that the model after a step is the best and cannot be kept.
func (x keeper) warnNotKept(step int64, err error) {
	r := x.rank
	if r.id != 0 {
		return
	}
	stays := "no earlier one is kept either"
	if k, _ := r.history.kept(); k != nil {
		stays = fmt.Sprintf("the kept model is still that of step %d", k.Step)
	}
	r.job.o.Observer.Warned(fmt.Sprintf("the model after step %d is the best so far and cannot be kept: %v; %s; free some space, or "+
		"set train.keep = \"last\"",
		step, err, stays))
}

// pruneKept removes, on rank 0, models that are no longer the best, even if the run goes back to its
// last commit, to the last one in its logs, or to any of its checkpoints.
func (x keeper) pruneKept(step int64) error {
	r := x.rank
	j := r.job
	if r.id != 0 || !j.keepsBest() {
		return nil
	}
	horizon := r.checkpoints.horizon(step) // the earliest step to which the run may go back
	if p := r.protection; p != nil && p.parity != nil {
		horizon = min(horizon, p.commits.Committed())
	}
	if p := r.protection; p != nil && p.log.store != nil {
		horizon = min(horizon, p.log.durable)
	}
	if dir := j.cfg.Checkpoint.Dir; dir != "" {
		oldest, ok, err := checkpoint.Oldest(j.env, dir, r.lineage.Lineage)
		if err != nil {
			return nil // the files stay until a later call
		}
		if ok {
			horizon = min(horizon, oldest)
		}
	}
	var needed []int64
	list := r.history.Kept
	for i, k := range list {
		if i == len(list)-1 || list[i+1].Step >= horizon { // the evaluation of a stop follows the last commit
			needed = append(needed, k.Step)
		}
	}
	_ = j.bestModels().Prune(r.lineage.Lineage.Short(), step, needed) // as above
	return nil
}

// adoptKept finds the best model of the run that a checkpoint of folder from belongs to, after it is
// loaded. Without it, the best model is the best from here on. All ranks call it.
func (x keeper) adoptKept(from string) error {
	r := x.rank
	j := r.job
	k, _ := r.history.kept()
	if !j.keepsBest() || k == nil {
		r.history.Kept = nil
		return nil
	}
	found := uint64(0)
	if r.id == 0 {
		runs := []lineage.ID{r.lineage.Lineage}
		for _, f := range slices.Backward(r.lineage.Forks) {
			runs = append(runs, f.Lineage)
		}
		ok, err := j.bestModels().Adopt(k.Step, runs, from, j.o.Saved, j.o.SaveTo)
		if ok && err == nil {
			found = 1
		} else {
			j.o.Observer.Warned(fmt.Sprintf("%s: the best model so far, of step %d, is not there: the model kept is the best after step %d",
				j.bestModels().Path(k.Step, r.lineage.Lineage.Short()), k.Step, r.done))
		}
	}
	all, err := r.conns.ctl.gather([]uint64{found})
	if err != nil {
		return err
	}
	if all[0][0] == 0 {
		r.history.Kept = nil
	}
	return nil
}

// removeStaleKept removes, on rank 0 at the start of a run without checkpoints, the models that an
// earlier run left in its folder. A run that has resumed needs the model that it has adopted.
func (x keeper) removeStaleKept() error {
	r := x.rank
	j := r.job
	if r.id != 0 || !j.keepsBest() || j.cfg.Checkpoint.Dir != "" || j.world.Later || r.protection.isStored() || len(r.history.Kept) > 0 {
		return nil
	}
	return j.bestModels().RemoveAll()
}

// removePublished removes models beside the final one, which has replaced them. A run that may resume from its logs or its topic needs
// them if it was stopped. It also does if the final model is of the last step and none was due to be kept there: a longer run has not
// evaluated it, and keeps an earlier one.
func (j *job) removePublished() error {
	e := j.result.ModelEval
	needed := j.result.Stopped || e != nil && e.Step == j.result.Steps && !j.isEvalStep(e.Step)
	if !j.keepsBest() || j.cfg.Checkpoint.Dir != "" || needed && (j.stores() || streams(j)) {
		return nil
	}
	return j.bestModels().RemoveAll()
}

// saveModel writes the model to Options.SaveTo: of the best evaluation, or of the last step.
func (x keeper) saveModel() error {
	r := x.rank
	j := r.job
	if j.o.SaveTo == "" {
		return nil
	}
	k, e := r.history.kept()
	if k != nil && k.Digest != "" {
		if r.id != 0 {
			return nil
		}
		j.result.ModelDigest, j.result.ModelEval = k.Digest, e
		return j.bestModels().Publish(k.Step, r.lineage.Lineage.Short(), j.o.SaveTo)
	}
	state := ""
	if r.id == 0 {
		state = j.result.Digest
	}
	sum, err := x.writeModel(j.o.SaveTo, r.done, state)
	if err == nil && r.id == 0 {
		j.result.ModelDigest = sum.String()
		for i := range r.history.Eval {
			if r.history.Eval[i].Step == r.done {
				j.result.ModelEval = &r.history.Eval[i]
			}
		}
	}
	return err
}
