package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
)

// Run trains a config, with the ranks that o.World gives this process. The result is never
// nil.
func Run(e env.Env, cfg *config.Config, o Options) (*Result, error) {
	j := newJob(e, cfg, o)
	if err := j.open(); err != nil {
		return &j.result, err
	}
	defer j.close()
	err := j.eachRank((*rank).runJob)
	j.result.Stopped = j.stopped.Load()
	if err != nil && !errors.As(err, new(*notWritten)) {
		j.result.Digest = ""
	}
	if err == nil && slices.Contains(j.hosted, 0) {
		err = j.removePublished()
	}
	return &j.result, err
}

// notWritten is the error of a job that is done and has a digest, if a file could not be
// written.
type notWritten struct{ cause error }

func (e *notWritten) Error() string { return e.cause.Error() }

func (e *notWritten) Unwrap() error { return e.cause }

// asNotWritten turns the error of write into a notWritten.
func asNotWritten(write func() error) func() error {
	return func() error {
		err := write()
		if err == nil || IsConsequence(err) {
			return err
		}
		return &notWritten{err}
	}
}

// infoOf describes the job that a rank has begun.
func (j *job) infoOf(r *rank) Info {
	device := j.dev.Name()
	if r.conns.direct {
		device += fmt.Sprintf(" and NCCL %d.%d.%d", j.nccl.Version/10000, j.nccl.Version/100%100, j.nccl.Version%100)
	}
	gpu, _ := kernels.GPU(j.dev)
	steps, isEndless := j.steps, messages(j) != nil && j.cfg.Train.Iterations == 0
	if isEndless {
		steps = 0
	}
	return Info{Endless: isEndless,
		Device: device, GPU: gpu, Ranks: j.ranks, Threads: j.threadCount(), DenseParams: r.model.Params().Len(),
		Rows: j.place.Rows(), Began: j.result.Began, Steps: steps, BytesPerRow: j.bytesPerRow(),
		Run: r.lineage, Recipe: j.o.Recipe, Inputs: j.inputs, Origin: j.origin,
		Recoveries: slices.Clone(r.history.Recoveries),
	}
}

// saveTrace writes the job's timeline to one file, with all processes.
func (r *rank) saveTrace() error {
	j := r.job
	if j.trace == nil {
		return nil
	}
	path := j.o.TraceTo
	if r.id == j.hosted[0] {
		if err := r.env.Do("write "+path, func() error { return j.trace.WriteFile(path, j.world.Process) }); err != nil {
			return err
		}
	}
	if err := r.conns.ctl.comm.Barrier().Wait(); err != nil || r.id != 0 {
		return err
	}
	return r.env.Do("merge "+path, func() error { return trace.Merge(path, j.world.presentProcesses()) })
}

// runJob is the life of a rank in one world of a training job.
func (r *rank) runJob() error {
	j := r.job
	if r.id == j.hosted[0] {
		defer func() {
			if durable := r.protection.durableStep(); j.stores() {
				j.result.Durable, j.result.NotDurable = durable, max(0, r.done-durable)
			}
		}()
	}
	if r.id == 0 {
		defer func() {
			j.result.Steps, j.result.TrainLoss, j.result.Eval = r.done, slices.Clone(r.history.TrainLoss), r.history.Eval
			j.result.Recoveries = r.history.Recoveries
			_, isOver := j.judgeEvals(r.history.Eval)
			j.result.EndedEarly = isOver && r.done < j.steps
			j.result.InputEnded = r.intake.ended
		}()
	}
	if err := r.getReady(); err != nil {
		return err
	}
	if !j.o.EvalOnly {
		if err := r.trainJob(); err != nil {
			return err
		}
	}
	for _, do := range []func() error{
		// The last commit has no evaluation of its step unless one is due there, as the last checkpoint: a run that resumes
		// there has the evaluations of a run without an end, and so keeps the same model.
		r.protection.commitAll,
		func() error { return r.evaluate(r.done, true) },
		r.sumDigest,
		r.sumMoved,
		r.protection.finish,
		func() error { return shareDurable(r.protection) },
		func() error { return reportUnsent(r.protection) },
		asNotWritten(keeper{r}.saveModel),
		asNotWritten(r.saveTrace),
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// getReady brings a rank to the state of the job, and returns when all ranks are there.
func (r *rank) getReady() error {
	j := r.job
	if err := r.connectGPUs(); err != nil {
		return err
	}
	start := r.setUpRun
	if r.protection != nil {
		start = r.protection.catchUp
	}
	if err := start(); err != nil {
		return err
	}
	if !j.o.EvalOnly && j.modeOf(j.cfg.Cache.Mode) == lrpp.Cached {
		if err := r.openCache(j.steps - r.done); err != nil {
			return err
		}
		r.conns.exchange = r.conns.cache
	}
	if err := r.conns.ctl.comm.Barrier().Wait(); err != nil { // all ranks are ready
		return err
	}
	if err := r.probe.Reach(r.done, probe.Ready); err != nil {
		return err
	}
	r.protection.startTraining()
	if r.id == 0 && !j.started {
		j.trace.Zero()
		j.started = true
		j.warnIfSkipped()
		if err := j.o.Observer.Started(j.infoOf(r)); err != nil {
			return err
		}
		if r.done == 0 && !j.o.EvalOnly {
			j.warnOfData()
		}
	}
	r.protection.reportBegin()
	if err := r.conns.ctl.comm.Barrier().Wait(); err != nil { // no rank reads data before
		return err
	}
	r.protection.recordReady()
	return r.probe.Reach(r.done, probe.Start)
}

// setUpRun sets the model that a run starts from. It finds errors of that before it touches
// checkpoint.dir.
func (r *rank) setUpRun() error {
	j := r.job
	r.checkpoints.lastSave = r.env.Now()
	if !j.o.EvalOnly {
		if err := checkSameRun(r.conns.ctl, j.run.Lineage); err != nil {
			return err
		}
	}
	r.lineage, r.history.Input = j.run, nil
	if err := r.setFirstModel(); err != nil {
		return err
	}
	if err := r.intake.setInput(r); err != nil {
		return err
	}
	if err := (keeper{r}).removeStaleKept(); err != nil {
		return err
	}
	if j.o.EvalOnly || j.world.Later { // in a later world a lost process of this job may still hold the lock
		return nil
	}
	return r.checkpoints.takeLock()
}

// setFirstModel sets the model to that of a checkpoint or of model.init_from. Otherwise it
// stays as it was drawn, or is drawn now.
func (r *rank) setFirstModel() error {
	j := r.job
	r.model.Params().Draw()
	logs, err := r.protection.findStored()
	if err != nil {
		return err
	}
	if logs.most > 0 && j.o.Resume == "" && !j.world.Later {
		return config.Errorf("store.path: %s holds this run up to step %d; give --resume auto to go on from there, or remove the folder",
			j.cfg.Store.Path, logs.most)
	}
	if j.o.Resume == "auto" || j.o.Resume == "" && logs.most > 0 {
		search := j.searchAsked()
		if j.o.Resume == "" { // the logs are those of this job, in a later world
			if search, err = r.searchOwn(); err != nil {
				return err
			}
		}
		resumed, err := r.protection.resumeStored(logs, search)
		if err != nil || resumed {
			if resumed && r.id == 0 {
				j.result.Began = r.done
			}
			return err
		}
	}
	if j.o.Resume != "" {
		resumed, err := r.resumeFrom(j.searchAsked())
		if err != nil {
			return err
		}
		if resumed {
			if r.id == 0 {
				j.result.Began = r.done
			}
			return nil
		}
	}
	if path := j.cfg.Model.InitFrom; path != "" {
		return r.modelFile(&j.topology, r.id).Load(path)
	}
	return nil
}

// sumMoved adds up what all ranks moved in training, for the job's result.
func (r *rank) sumMoved() error {
	if err := r.probe.Reach(r.done, probe.Count); err != nil {
		return err
	}
	critical, delayed := r.meter.moved.Critical, r.meter.moved.Delayed
	all, err := r.conns.ctl.gather([]uint64{uint64(critical.Rows), uint64(critical.Bytes), uint64(delayed.Rows), uint64(delayed.Bytes)})
	if err != nil || r.id != 0 {
		return err
	}
	r.job.result.Moved = lrpp.Moved{} // of a world that ended since
	for _, m := range all {
		r.job.result.Moved.Add(lrpp.Moved{Critical: lrpp.Traffic{Rows: int64(m[0]), Bytes: int64(m[1])},
			Delayed: lrpp.Traffic{Rows: int64(m[2]), Bytes: int64(m[3])}})
	}
	return nil
}

// sumDigest computes the digest of the model, for the job's result: of all ranks' rows, and of
// the dense part, which must be equal on all trainers.
func (r *rank) sumDigest() error {
	if err := r.probe.Reach(r.done, probe.Digest); err != nil {
		return err
	}
	total, err := r.digestModel()
	if r.id == 0 && err == nil {
		r.job.result.Digest = total
		err = r.protection.checkDigest(total)
	}
	return err
}

// digestModel returns the digest of the model, on rank 0.
func (r *rank) digestModel() (string, error) {
	rows, err := r.shard.Digest()
	if err != nil {
		return "", err
	}
	dense, err := r.digestDense(r.done)
	if err != nil {
		return "", err
	}
	all, err := r.conns.ctl.gather([]uint64{rows.Hi, rows.Lo, dense.Hi, dense.Lo})
	if err != nil {
		return "", err
	}
	total := dense
	for i, s := range all {
		total.Add(digest.Sum{Hi: s[0], Lo: s[1]})
		if d := (digest.Sum{Hi: s[2], Lo: s[3]}); d != dense && r.job.roles.isTrainer(i) && r.job.roles.isTrainer(r.id) {
			panic(fmt.Sprintf("train: the dense parameters of ranks %d and %d differ (%v, %v)", r.id, i, dense, d))
		}
	}
	return total.String(), nil
}
