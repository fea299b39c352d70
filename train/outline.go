package train

import (
	"math"
	"strings"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/train/feed"
)

// Outline describes a job that is not started: its traffic and its memory, for package plan. It
// allocates no rows.
type Outline struct {
	// Job is the job, on processes of one rank each.
	Job plan.Job
	// Recipe is that of the data, for outlines of the same data.
	Recipe *data.Recipe

	job   *job
	batch data.Batch
	idx   []int64
}

// OpenOutline opens the data of a job, converting text as a run does, and describes the job. Recipe may be nil.
// neighbours is the number of processes on each machine. It refuses the configs that Run refuses, except for
// want of memory.
func OpenOutline(e env.Env, cfg *config.Config, recipe *data.Recipe, neighbours int, progress func(data.Progress) error) (o *Outline, err error) {
	if cfg.ReadsTopic() {
		return nil, config.Errorf("data.train: the ids of a topic cannot be counted before a run; give files of such rows, or data.format = \"synthetic\"")
	}
	n := cfg.Job.Ranks
	j := newJob(e, cfg, Options{Recipe: recipe, Progress: progress,
		World: &World{Processes: n, Neighbours: min(neighbours, n), Hosted: []int{0}}})
	o = &Outline{job: j}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if err = j.fitData(); err != nil {
		return nil, err
	}
	if err = j.resolveTopology(); err != nil {
		return nil, err
	}
	if slots := j.place.Slots(0); slots > shard.MaxSlots {
		return nil, tooManySlots(j, slots)
	}
	if err = j.checkTier(); err != nil {
		return nil, err
	}
	if err = data.CheckFiles(e, append(append([]string{}, cfg.EvalFiles()...), cfg.Data.Train...)); err != nil {
		return nil, err
	}
	if j.train, err = j.openSource(false); err != nil {
		return nil, err
	}
	if len(cfg.Data.Eval) > 0 {
		if j.eval, err = j.openSource(true); err != nil {
			return nil, err
		}
	}
	if j.workload, err = newWorkload(&j.topology, j.train, j.eval); err != nil {
		return nil, err
	}
	o.Recipe, o.Job = j.o.Recipe, planJob(j)
	return o, nil
}

// Close closes the data.
func (o *Outline) Close() { o.job.close() }

// Steps is the number of steps of the job.
func (o *Outline) Steps() int64 { return o.job.steps }

// Slice returns the samples of a trainer's slice in a step, and appends the global row of each
// lookup to dst.
func (o *Outline) Slice(step int64, trainer int, dst []int64) (samples int, rows []int64, err error) {
	j, b := o.job, &o.batch
	o.idx = j.order.Slice(step, trainer, j.roles.trainers, o.idx)
	if err := j.train.Read(b, o.idx); err != nil {
		return 0, dst, err
	}
	features := j.schema.Features()
	for cell := range b.N * features {
		base := j.place.Base[j.schema.TableOfFeature(cell%features)]
		first, end := cell, cell+1
		if b.Offsets != nil {
			first, end = int(b.Offsets[cell]), int(b.Offsets[cell+1])
		}
		for _, id := range b.IDs[first:end] {
			dst = append(dst, base+int64(id))
		}
	}
	return b.N, dst, nil
}

// planJob describes a job to package plan.
func planJob(j *job) plan.Job {
	mode := j.modeOf(j.cfg.Cache.Mode)
	p := plan.Job{Ranks: j.ranks, Trainers: j.roles.trainers, First: j.roles.first, Place: j.place, Width: j.width, Stride: j.width + j.rowState(),
		Split: mode != lrpp.Direct, DelayedSync: j.cfg.Cache.DelayedSync && j.cfg.Train.ClipNorm == 0, AllRows: j.rows.movesAll(),
		Buckets: joinBuckets(j.shape.Buckets(), j.roles.trainers), OneHost: readsAll(j),
		Coded: j.coded(), Layout: j.layout, Commits: j.commits() || streams(j), CommitEvery: j.cfg.EC.CommitEvery, StatusBytes: 8 * statusFields}
	if hashes(j) || j.stores() {
		p.SealBytes = 8 * len((&sealReport{}).words())
	}
	return p
}

// LookupsPerStep is about how many lookups a step has.
func (o *Outline) LookupsPerStep() float64 {
	return float64(o.job.order.BatchSize(1)) * o.job.idsPerSample()
}

// heapSpare is the memory of the Go heap over the bytes in use: see the collector's percentage in package cli.
const heapSpare = 1.25

// Memory of a process without rows and buffers, of its connections, and of its supervisor. Measured as the anonymous memory of jobs with
// 1 to 16 processes: that of a process with others is 1.8 to 2.8 MiB larger, and a supervisor has 6.2 to 6.5. The program itself is in
// memory once for all.
const ownProcess, ownConnections, ownSupervisor = 7.2 * (1 << 20), 2 * (1 << 20), 6.3 * (1 << 20)

// Memory is the memory of the process of a rank, when all rows have been touched. The rank's counts
// per step are counted.
func (o *Outline) Memory(rank int, counted *plan.RankMean) (m plan.Memory) {
	j := o.job
	owner := j.roles.ownerOf(rank)
	options := j.rowOptions(owner)
	m[plan.RowIndex] = float64(shard.PlacesBytes(options))
	total, weights := float64(shard.Bytes(options))-m[plan.RowIndex], 0.0
	if width := j.width + j.rowState(); width > 0 && owner >= 0 {
		resident := float64(j.place.Slots(owner))
		if j.tiers() {
			resident = float64(min(int64(options.Frames), j.place.Slots(owner)))
			index := float64(shard.SlotBytes(options)) + float64(int64(options.Ahead)*shard.RowBytes(options))
			m[plan.RowIndex], total = m[plan.RowIndex]+index, total-index
		}
		weights = resident * float64(4*j.width)
	}
	m[plan.RowWeights], m[plan.RowState] = weights, max(0, total-weights)
	if owner >= 0 && j.coded() {
		m[plan.Parities] = float64(parityRows(j, owner) * int64(j.bytesPerRow()))
		m[plan.RowIndex] += parityPlaceBytes(j, owner)
	}
	if owner >= 0 && j.stores() {
		m[plan.RowIndex] += float64(store.IndexBytes * j.place.Slots(0))
	}
	if savesIncrements(j.cfg.Checkpoint, false) {
		m[plan.RowState] += float64(shard.WrittenBytes(options))
	}
	if c := j.cfg.Checkpoint; owner >= 0 && c.Dir != "" && (c.Every.Steps > 0 || c.Every.Time > 0) {
		m[plan.SaveAside] = asideShare * (weights + m[plan.RowState])
	}
	addDense(&m, j, rank)
	if j.modeOf(j.cfg.Cache.Mode) == lrpp.Cached && j.roles.isTrainer(rank) {
		rows := lrpp.CacheRows(j.place.Slots, j.place.Owners, int(j.cacheRows(int64(j.cfg.Cache.MaxBytes))))
		m[plan.RowCache] = float64(rows) * float64(j.bytesPerRow())
	}
	addLinks(&m, j)
	m.AddCounted(&o.Job, sizesOf(j), counted, j.maxSliceOf(rank))
	return m
}

// sizesOf are the numbers of batches and epochs that have memory at a time.
func sizesOf(j *job) plan.Sizes {
	s := plan.Sizes{Dense: j.schema.Dense, Ahead: feed.WorkAhead + 4, Epochs: epochs, Heap: heapSpare, Changed: j.coded()}
	if j.modeOf(j.cfg.Cache.Mode) == lrpp.Cached {
		s.Ahead += int(min(int64(askedLookahead(j)), j.steps))
	}
	if j.stores() {
		s.Copies += epochs
	}
	if streams(j) {
		s.Copies += epochs
	}
	return s
}

// readsAll reports whether all ranks can read each other's memory.
func readsAll(j *job) bool {
	return j.ranks <= j.world.Neighbours && j.cfg.Collectives.Transport == "auto"
}

// addDense adds the dense part and the activations of a rank.
func addDense(m *plan.Memory, j *job, rank int) {
	params, state := float64(j.shape.DenseParams()), float64(j.denseOpt.Kind.DenseState(j.shape.DenseParams()))
	saved := float64(j.shape.SavedFloats())
	m[plan.DenseState] = 4 * (saved + params + state + float64(j.shape.Constants))
	if j.commits() && j.keepsSnapshots(rank) {
		m[plan.Snapshots] = 2 * 4 * (saved + state)
	}
	slice := float64(j.maxSliceOf(rank))
	const perSample = 6 // label, weight, loss, gradient, and two on the host
	m[plan.Activations] = 4 * slice * float64(j.shape.Activations+j.schema.Dense+perSample)
	inPlace := readsAll(j) && j.dev == j.host // but for short buckets, whose scratch is little
	if j.roles.isTrainer(rank) && j.roles.trainers > 1 && !inPlace {
		m[plan.Buffers] += float64(collectives.AllReduceBytes(j.roles.trainers))
	}
	if j.keepsLosses(rank) {
		m[plan.Process] += 8 * math.Min(float64(j.steps), mostLosses)
	}
}

// addLinks adds the process, and its connections.
func addLinks(m *plan.Memory, j *job) {
	m[plan.Process] += ownProcess
	if streams(j) {
		m[plan.LogCopies] += float64(j.cfg.Stream.Backlog) / float64(j.ranks)
	}
	if j.ranks == 1 {
		return
	}
	m[plan.Process] += ownConnections + ownSupervisor
	here := float64(j.world.Neighbours - 1)
	if j.cfg.Collectives.Transport != "auto" && j.cfg.Collectives.Transport != "nccl" {
		here = 0
	}
	m[plan.Links] = here * linkBytes / 2 // the two processes share the rings
	m[plan.Links] += float64(j.ranks-1) * pairBytes
}

// ModelConfig is the model of a trainer, for calibrations.
func (o *Outline) ModelConfig() model.Config { return o.job.modelConfig(0) }

// Batch reads a trainer's slice of a step. It is valid until the next call of Batch or Slice.
func (o *Outline) Batch(step int64, trainer int) (*data.Batch, error) {
	o.idx = o.job.order.Slice(step, trainer, o.job.roles.trainers, o.idx)
	return &o.batch, o.job.train.Read(&o.batch, o.idx)
}

// BatchSize is the number of samples of the first step.
func (o *Outline) BatchSize() int { return o.job.order.BatchSize(1) }

// MaxSlice is the number of samples of the largest slice.
func (o *Outline) MaxSlice() int { return o.job.maxSlice }

// Rules are the update rules of rows and of the dense part in a step.
func (o *Outline) Rules(step int64) (kernels.RowRule, kernels.Optimizer) {
	return o.job.rows.ruleAt(step, 1), o.job.denseOpt.At(step)
}

// Threads is the number of compute threads of a process.
func (o *Outline) Threads() int { return o.job.threadCount() }

// TableOf is the table of each feature, as in data.Schema.
func (o *Outline) TableOf() []int { return o.job.schema.TableOf }

// Means is 1 for each feature whose bags are means. Nil: none are.
func (o *Outline) Means() []int32 { return o.job.cfg.Model.Means() }

// BLAS is kernels.blas on a CPU.
func (o *Outline) BLAS() string {
	if b := o.job.cfg.Kernels.BLAS; !strings.HasPrefix(b, "cublas") {
		return b
	}
	return "exact"
}

// DenseParams is the number of dense parameters.
func (o *Outline) DenseParams() int { return o.job.shape.DenseParams() }

// Uncounted names the messages of a step that Job does not describe.
func (o *Outline) Uncounted() (what []string) {
	j := o.job
	if j.modeOf(j.cfg.Cache.Mode) == lrpp.Cached {
		what = append(what, "cache.mode = \"lrpp\" (the messages are those of \"planned\")")
	}
	if j.shape.AddsUp && j.roles.trainers > 1 {
		what = append(what, "sums of batch norm")
	}
	if j.roles.readers > 0 {
		what = append(what, "slices from readers")
	}
	return what
}
