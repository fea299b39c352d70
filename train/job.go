package train

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train/resume"
)

// job is shared by the ranks of one process. It changes between worlds only, except result,
// which belongs to rank 0.
type job struct {
	topology
	workload
	o     Options
	env   env.Env
	trace *trace.Recorder // nil: there is no timeline

	dev       kernels.Device    // computes, and holds the rows
	host      kernels.Device    // the CPU; it may be dev
	far       bool              // dev is a GPU, and the rows are in the host's memory
	nccl      *collectives.NCCL // nil: ranks cannot have GPUs of their own
	cacheRoom int64             // bytes that a trainer's cache can have

	world  *World
	hosted []int // ranks of this process

	train, eval data.Source    // nil: there is none
	run         lineage.Run    // the run if it does not resume
	inputs      lineage.Inputs // identities of its files
	unread      []string       // keys of its recipe whose files are gone and whose identities are unknown
	origin      *resume.Origin // of Options.Resume, on rank 0

	started bool           // Observer.Started was called
	warned  [warnings]bool // by warnOnce
	crowded string         // the last warning of warnIfCrowded
	loss    lossTimes
	result  Result
	stopped atomic.Bool
}

func newJob(e env.Env, cfg *config.Config, o Options) *job {
	j := &job{o: o, env: e, world: o.World, cacheRoom: math.MaxInt64}
	j.topology = topology{cfg: cfg, ranks: cfg.Job.Ranks, roles: rolesOf(cfg)}
	if j.world == nil {
		j.world = alone(e, j.ranks)
	}
	j.hosted = j.world.hostedRanks(j.ranks)
	if o.TraceTo != "" {
		j.trace = trace.New(e)
	}
	return j
}

// resolveTopology sets the topology.
func (j *job) resolveTopology() (err error) {
	j.topology, err = newTopology(j.cfg, j.coded())
	return err
}

// open opens devices and data, and resolves topology, workload and run.
func (j *job) open() (err error) {
	c := j.cfg
	if err = j.openDevices(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	warnIfSlow(j)
	if err = j.fitData(); err != nil {
		return err
	}
	if err = j.resolveTopology(); err != nil {
		return err
	}
	// Conversion of a file may take long, so errors that do not depend on it come first.
	if err = j.checkMemory(); err != nil {
		return err
	}
	files := slices.Clone(c.EvalFiles())
	if !j.o.EvalOnly && !c.ReadsTopic() {
		files = append(files, c.Data.Train...)
	}
	if err = data.CheckFiles(j.env, files); err != nil {
		return err
	}
	if !j.o.EvalOnly {
		if j.train, err = j.openSource(false); err != nil {
			return err
		}
	}
	if len(c.Data.Eval) > 0 {
		if j.eval, err = j.openSource(true); err != nil {
			return err
		}
	}
	if j.rows.movesAll() && (len(j.o.Sinks) > 0 || j.stores()) && !j.o.EvalOnly {
		return config.Errorf("optimizer.sparse.dense: changes every row at each step, and a sink would receive them all; leave it out, " +
			"or the sink or store.path")
	}
	if j.workload, err = newWorkload(&j.topology, j.train, j.eval); err != nil {
		return err
	}
	if err = j.identifyRun(); err != nil {
		return err
	}
	return j.checkMemory()
}

// openSource opens the training data, or with eval the evaluation data.
func (j *job) openSource(eval bool) (data.Source, error) {
	if !eval && j.o.Source != nil {
		return j.o.Source, nil
	}
	return data.Open(j.dataOptions(eval))
}

func (j *job) dataOptions(eval bool) data.Options {
	o := j.cfg.DataOptions(eval)
	o.Env, o.Progress, o.Recipe = j.env, j.o.Progress, j.o.Recipe
	return o
}

// fitData sets Options.Recipe. If the config leaves tables or transforms to be counted, that
// converts and counts the training data, unless the recipe is there.
func (j *job) fitData() (err error) {
	if j.o.Recipe == nil {
		if j.cfg.Model.Tables.IsCounted() { // that may take long
			if err = data.CheckFiles(j.env, j.cfg.EvalFiles()); err != nil {
				return err
			}
		}
		if j.o.Recipe, err = data.Fit(j.dataOptions(false)); err != nil {
			return err
		}
	}
	if j.cfg.Model.Tables.IsCounted() {
		if want, has := len(j.cfg.Model.TableRows()), len(j.o.Recipe.Schema().Tables); want != has {
			return config.Errorf("the recipe of the model has %d tables, and the config has %d; use the config that it was trained with", has, want)
		}
		j.cfg = j.cfg.Resolve(j.o.Recipe)
		j.topology.cfg = j.cfg
	}
	return nil
}

func (j *job) close() {
	for _, s := range []data.Source{j.train, j.eval} {
		if s != nil {
			j.result.Skipped += s.Skipped()
			s.Close()
		}
	}
}

// threadsOf is a rank's share of the process's compute threads, at least one.
func (j *job) threadsOf(rank int) int {
	total, ranks, i := j.threadCount(), len(j.hosted), slices.Index(j.hosted, rank)
	return max(1, (i+1)*total/ranks-i*total/ranks)
}

func (j *job) modelConfig(rank int) model.Config {
	c := j.cfg.ModelConfig()
	c.MaxSamples = j.maxSliceOf(rank)
	return c
}

// maxSliceOf is the largest slice of a rank, in samples.
func (j *job) maxSliceOf(rank int) int {
	if !j.roles.isTrainer(rank) {
		return 0
	}
	return j.maxSlice
}

// identifyRun sets the run, which follows from the config and the data that is open.
func (j *job) identifyRun() (err error) {
	c := j.cfg.Data
	if j.o.EvalOnly {
		return nil
	}
	in := &j.inputs
	for _, d := range []struct {
		files []string
		from  data.Source
		id    *data.Identity
	}{{c.Train, j.train, &in.Train}, {j.cfg.EvalFiles(), j.eval, &in.Eval}} {
		if d.from == nil {
			continue
		}
		if d.from == j.train && messages(j) != nil {
			*d.id, err = identifyTopic(j)
		} else {
			*d.id, err = data.Identify(j.env, d.files)
		}
		if err != nil {
			return err
		}
		if n := d.from.Len(); n < math.MaxInt64 {
			d.id.Samples = n
		}
		if split, ok := j.cfg.EvalSplit(); ok {
			d.id.Split = split.String()
		}
	}
	if from := j.cfg.Model.InitFrom; from != "" {
		if in.InitFrom, err = data.Identify(j.env, []string{from}); err != nil {
			return identifyWithoutInit(j)
		}
	}
	j.run = lineage.New(j.cfg.Job.Name, lineage.Of(j.cfg, *in))
	return nil
}

// idsPerSample is the number of ids of a sample: the larger mean of the data that is open.
func (j *job) idsPerSample() (ids float64) {
	for _, s := range []data.Source{j.train, j.eval} {
		if s != nil {
			of := s.Schema()
			ids = max(ids, of.IDsPerSample())
		}
	}
	return max(ids, float64(j.schema.Features()))
}

// distinctRows is about how many different rows some samples use at most.
func (j *job) distinctRows(samples int64) (rows float64) {
	perFeature := j.idsPerSample() / float64(j.schema.Features())
	of := make([]float64, len(j.schema.Tables))
	for f := range j.schema.Features() {
		of[j.schema.TableOfFeature(f)] += perFeature * float64(samples)
	}
	for t, n := range j.schema.Tables {
		rows += min(float64(n), of[t])
	}
	return rows
}

// coded reports whether the job's rows are coded. A job that only evaluates loses nothing.
func (j *job) coded() bool { return j.cfg.EC.Code != ec.None && !j.o.EvalOnly }

// commits reports whether the job commits epochs: rows are coded, there are other sinks, or the
// digest of every commit is asked for.
func (j *job) commits() bool {
	return j.coded() || (len(j.o.Sinks) > 0 || hashes(j) || j.stores()) && !j.o.EvalOnly
}

// streams reports whether the commits of a job go to a topic.
func streams(j *job) bool { return j.cfg.Stream.To != "" && !j.o.EvalOnly }

// hashes reports whether a job finds the digest of every commit.
func hashes(j *job) bool { return j.cfg.Job.Digests || streams(j) }

// stores reports whether the rows of commits are kept in logs on disks.
func (j *job) stores() bool { return j.cfg.Store.Path != "" && !j.o.EvalOnly && j.o.Below == nil }

// tiers reports whether rows that are not in use are on a disk (store.tier).
func (j *job) tiers() bool {
	return j.cfg.Store.Tier == "file" && (j.stores() || j.o.EvalOnly || j.o.Below != nil)
}

// keepsSnapshots reports whether a rank keeps snapshots: the first ones do, one more than may
// be lost at once. They run on different processes if there are as many.
func (j *job) keepsSnapshots(id int) bool { return id <= j.tolerated() }

// tolerated is how many ranks may be lost at once.
func (j *job) tolerated() int {
	if !j.coded() {
		return 0
	}
	return j.cfg.EC.R
}

// keepsLosses reports whether a rank keeps every step's loss: rank 0, which reports them,
// and the ranks with snapshots, one of which replaces it.
func (j *job) keepsLosses(id int) bool { return id == 0 || j.coded() && j.keepsSnapshots(id) }

// searchAsked describes the search of Options.Resume.
func (j *job) searchAsked() *resume.Search {
	s := &resume.Search{Unread: j.unread, Env: j.env, Asked: j.o.Resume, From: j.o.Resume, Auto: j.o.Resume == "auto", Run: j.run, Last: j.steps,
		Length: j.lengthKey(), Allow: j.o.Allow, AnyRun: j.o.EvalOnly, Skipped: j.o.Observer.SkippedCheckpoint}
	switch {
	case s.Auto:
		s.From = j.cfg.Checkpoint.Dir
	case j.o.Restore != nil:
		s.From = j.o.Restore.Dir
	}
	return s
}

// isEvalDue reports whether train.eval_every requires an evaluation after a step. The end of
// a run has one of its own, unless the last checkpoint or commit must hold it: a longer run that
// resumes from there has evaluated at that step too.
func (j *job) isEvalDue(step int64) bool {
	return j.isEvalStep(step) && (step < j.steps || j.cfg.Checkpoint.Dir != "" || j.stores() || streams(j))
}

// isEvalStep reports whether a step is a multiple of train.eval_every.
func (j *job) isEvalStep(step int64) bool {
	every := int64(j.cfg.Train.EvalEvery)
	return every > 0 && step%every == 0
}
