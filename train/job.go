package train

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
)

// job is what the ranks of one process share. It does not change after setup,
// but for result, which is rank 0's.
type job struct {
	cfg       *config.Config
	o         Options
	env       env.Env
	dev       kernels.Device    // what computes, and has the rows
	host      kernels.Device    // the CPU; it may be dev
	far       bool              // rows lie in the host's memory, and dev is a GPU
	nccl      *collectives.NCCL // nil where ranks cannot have GPUs of their own
	ranks     int
	roles     roles
	trace     *trace.Recorder // nil: not wanted
	world     *World
	hosted    []int // ranks of this process
	schema    data.Schema
	place     placement.Map
	layout    ec.Layout // of the rows' owners
	width     int       // weights of a row
	cacheRoom int64     // bytes that a trainer's cache can have

	train, eval data.Source // nil where there is none
	order       data.Order
	steps       int64
	evalBatch   int
	maxSlice    int // samples of the largest slice

	denseOpt, sparse Schedule

	started bool   // Observer has been told
	crowded string // what it was told of machines with too many ranks
	noticed moment // when a loss was noticed here
	lost    moment // when it happened, as far as that is known
	result  Result
	stopped atomic.Bool
}

// Run trains the config's job with all ranks in this process. The result is
// never nil.
func Run(e env.Env, cfg *config.Config, o Options) (*Result, error) {
	j := newJob(e, cfg, o)
	if err := j.open(); err != nil {
		return &j.result, err
	}
	defer j.close()
	err := j.eachRank((*rank).run)
	j.result.Stopped = j.stopped.Load()
	if err != nil {
		j.result.Digest = ""
	}
	return &j.result, err
}

func newJob(e env.Env, cfg *config.Config, o Options) *job {
	j := &job{cacheRoom: math.MaxInt64, cfg: cfg, o: o, env: e, ranks: cfg.Job.Ranks, roles: rolesOf(cfg), world: o.World}
	if j.world == nil {
		j.world = alone(e, j.ranks)
	}
	j.hosted = j.world.hosted(j.ranks)
	if o.TraceTo != "" {
		j.trace = trace.New(e)
	}
	return j
}

// open opens the data and resolves what follows from config and data.
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
	if err = j.layOut(); err != nil {
		return err
	}
	// What can be told before the first file is converted, which may take long.
	if err = j.checkMemory(); err != nil {
		return err
	}
	files := slices.Clone(c.Data.Eval)
	if !j.o.EvalOnly {
		files = append(files, c.Data.Train...)
	}
	if err = data.CheckFiles(j.env, files); err != nil {
		return err
	}
	if !j.o.EvalOnly {
		if j.train, err = j.source(c.Data.Train); err != nil {
			return err
		}
	}
	if len(c.Data.Eval) > 0 {
		if j.eval, err = j.source(c.Data.Eval); err != nil {
			return err
		}
	}
	if err = j.plan(); err != nil {
		return err
	}
	return j.checkMemory()
}

// layOut resolves what follows from the config alone.
func (j *job) layOut() (err error) {
	c := j.cfg
	j.schema = data.Schema{Dense: c.Data.DenseCount(), Tables: c.Model.TableRows()}
	j.place = placement.New(j.schema.Tables, j.roles.rows)
	if j.protects() {
		if j.layout, err = ec.NewLayout(j.roles.rows, c.EC.K, c.EC.R); err != nil {
			return config.Errorf("%v", err)
		}
	}
	j.width = c.Model.EmbeddingDim
	j.denseOpt, j.sparse = scheduleOf(c.Optimizer.Dense), scheduleOf(c.Optimizer.Sparse)
	return nil
}

// plan sets how many steps there are and how large slices get.
func (j *job) plan() error {
	c := j.cfg
	largest := 0
	if j.train != nil {
		j.order = data.Order{Samples: j.train.Len(), Batch: c.Train.GlobalBatch,
			Shuffle: c.Data.Shuffle == "block", Seed: c.Job.Seed}
		j.steps = int64(c.Train.Iterations)
		if j.steps == 0 {
			if j.train.Len() == math.MaxInt64 {
				return config.Errorf("train.epochs: synthetic data has no end; set train.iterations instead")
			}
			j.steps = int64(c.Train.Epochs) * j.order.StepsPerEpoch()
		}
		largest = int(min(int64(c.Train.GlobalBatch), j.train.Len()))
	}
	if j.eval != nil {
		j.evalBatch = int(min(int64(max(c.Train.GlobalBatch, leastEvalBatch)), j.eval.Len()))
		largest = max(largest, j.evalBatch)
	}
	j.maxSlice = (largest + j.roles.trainers - 1) / j.roles.trainers
	return nil
}

// leastEvalBatch keeps evaluation efficient where training batches are small.
const leastEvalBatch = 4096

func (j *job) source(files []string) (data.Source, error) {
	d := j.cfg.Data
	if d.Format == data.FormatSynthetic {
		files = nil
	}
	return data.Open(data.Options{
		Env: j.env, Format: d.Format, Files: files, Tables: j.schema.Tables, Seed: j.cfg.Job.Seed,
		CSV:     data.CSV{Label: d.CSV.Label, Dense: d.CSV.Dense, Categorical: d.CSV.Categorical, Delimiter: d.CSV.Delimiter[0]},
		SkipBad: d.OnError == "skip", RecordDir: j.cfg.Job.Out, Progress: j.o.Progress,
	})
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
	total, ranks, i := j.threads(), len(j.hosted), slices.Index(j.hosted, rank)
	return max(1, (i+1)*total/ranks-i*total/ranks)
}

func (j *job) modelConfig(rank int) model.Config {
	m := j.cfg.Model
	return model.Config{
		Kind: m.Kind, Dense: j.schema.Dense, Tables: len(j.schema.Tables), EmbeddingDim: m.EmbeddingDim,
		BottomMLP: m.BottomMLP, TopMLP: m.TopMLP, Seed: j.cfg.Job.Seed, MaxSamples: j.maxSliceOf(rank),
	}
}

// maxSliceOf is how many samples a rank trains at a time, at most.
func (j *job) maxSliceOf(rank int) int {
	if !j.roles.trains(rank) {
		return 0
	}
	return j.maxSlice
}

func scheduleOf(o config.Optimizer) Schedule {
	return Schedule{
		Kind: kinds[o.Kind], LR: o.LR, Momentum: o.Momentum, Eps: o.Eps, Beta1: o.Betas[0], Beta2: o.Betas[1],
		Warmup: int64(o.WarmupSteps), DecayStart: int64(o.DecayStart), DecaySteps: int64(o.DecaySteps),
	}
}

var kinds = map[string]kernels.OptimizerKind{
	"sgd": kernels.SGD, "momentum": kernels.Momentum, "adagrad": kernels.Adagrad,
	"rowwise_adagrad": kernels.RowwiseAdagrad, "adam": kernels.Adam,
}

// run is the life of a rank of a training job.
func (r *rank) run() error {
	j := r.job
	if r.id == 0 {
		defer func() {
			j.result.Steps, j.result.TrainLoss, j.result.Eval = r.done, slices.Clone(r.history.TrainLoss), r.history.Eval
			j.result.Recoveries = r.history.Recoveries
		}()
	}
	if err := r.ready(); err != nil {
		return err
	}
	if !j.o.EvalOnly {
		if err := r.train(); err != nil {
			return err
		}
	}
	for _, do := range []func() error{
		r.makeWhole,
		func() error { return r.evaluate(r.done) },
		r.settle,
		r.digest,
		r.countMoved,
		r.healed,
		r.countCommits,
		func() error { return r.save(j.o.SaveTo) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return r.saveTrace()
}

// ready brings a rank to where the job stands, and returns when all ranks are there.
func (r *rank) ready() error {
	j := r.job
	if err := r.meetGPUs(); err != nil {
		return err
	}
	if err := r.start(); err != nil {
		return err
	}
	if r.commits != nil {
		r.announced = r.commits.Committed()
	}
	if !j.o.EvalOnly && j.mode(j.cfg.Cache.Mode) == lrpp.Cached {
		if err := r.openCache(j.steps - r.done); err != nil {
			return err
		}
		r.exchange = r.cache
	}
	if err := r.ctl.comm.Barrier().Wait(); err != nil { // all ranks are ready
		return err
	}
	if err := r.chaos(r.done, "ready"); err != nil {
		return err
	}
	r.phase = phaseTraining
	if r.id == 0 && !j.started {
		r.tracks.recorder.Zero()
		j.started = true
		if err := j.o.Observer.Started(j.info(r)); err != nil {
			return err
		}
	}
	if err := r.ctl.comm.Barrier().Wait(); err != nil { // nothing is read before
		return err
	}
	if err := r.chaos(r.done, "go"); err != nil {
		return err
	}
	return nil
}

// begin sets the model a run starts from: a checkpoint's, that of init_from, or
// freshly drawn.
func (r *rank) begin() error {
	r.lastSave = r.env.Now()
	if r.job.o.Resume != "" {
		if resumed, err := r.resume(); err != nil || resumed {
			if r.id == 0 {
				r.job.result.Began = r.done
			}
			return err
		}
	}
	if from := r.job.cfg.Model.InitFrom; from != "" {
		return r.load(from)
	}
	return nil
}

func (j *job) info(r *rank) Info {
	device := j.dev.Name()
	if r.direct {
		device += fmt.Sprintf(" and NCCL %d.%d.%d", j.nccl.Version/10000, j.nccl.Version/100%100, j.nccl.Version%100)
	}
	gpu, _ := kernels.GPU(j.dev)
	return Info{
		Device: device, GPU: gpu, Ranks: j.ranks, Threads: j.threads(), DenseParams: r.model.Params().Len(),
		Rows: j.place.Rows(), Began: j.result.Began, Steps: j.steps, BytesPerRow: j.bytesPerRow(),
	}
}

// countMoved adds up what all ranks moved in training.
func (r *rank) countMoved() error {
	if err := r.chaos(r.done, "count"); err != nil {
		return err
	}
	critical, delayed := r.moved.Critical, r.moved.Delayed
	all, err := r.ctl.gather([]uint64{uint64(critical.Rows), uint64(critical.Bytes), uint64(delayed.Rows), uint64(delayed.Bytes)})
	if err != nil || r.id != 0 {
		return err
	}
	for _, m := range all {
		r.job.result.Moved.Add(lrpp.Moved{Critical: lrpp.Traffic{Rows: int64(m[0]), Bytes: int64(m[1])},
			Delayed: lrpp.Traffic{Rows: int64(m[2]), Bytes: int64(m[3])}})
	}
	return nil
}
