package bench

import (
	"fmt"
	"os"
	"time"

	"github.com/ecrec/ecrec/bench/baseline/protection"
	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// guardBlock is a block of steps of one system, as rank 0 saw it.
type guardBlock struct {
	steps  int
	took   time.Duration   // with the checkpoint at its end
	ends   []time.Duration // of its steps, since its begin
	paused time.Duration   // for the checkpoint
	saved  time.Duration   // the part of it in which the disk was written
	cost   train.Cost
}

// perStep is the mean time of a step, in milliseconds.
func (x guardBlock) perStep() float64 { return 1e3 * x.took.Seconds() / float64(x.steps) }

// guardedJob is a job whose blocks take turns. Its ranks share it. Rank 0 writes the results; the others read steps after a barrier.
type guardedJob struct {
	b       *protectionRun
	job     guardJob
	size    ecrecSize
	cfg     *config.Config
	dense   [][]float32 // by rank, as long as the dense gradient; its values do not matter, as computing is emulated
	variant protection.Variant
	steps   int            // of a block of 30 minutes / scale
	rows    int64          // of the model
	saved   checkpointSize // of a checkpoint
	turns   *measure.Turns

	plain, with [][]guardBlock // [system][turn]
}

// leastSteps is the least number of steps of a block that is not as long as the time between two checkpoints. Tiny blocks are shorter.
const leastSteps = 20

// warmSteps are not timed at the begin of each block, or those of an epoch if that is longer.
const warmSteps = 2

func (b *protectionRun) measureJob(z ecrecSize, j guardJob) error {
	dir, err := b.o.tempDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g := &guardedJob{b: b, job: j, size: z, dense: make([][]float32, b.ranks), turns: measure.NewTurns(b.o.repeats(), b.o.endsTurns),
		plain: make([][]guardBlock, len(j.guards)), with: make([][]guardBlock, len(j.guards))}
	s, err := z.shape(b.scale, b.o.Tiny)
	if err != nil {
		return err
	}
	code := "none"
	if j.k > 0 && !j.like {
		code = ec.XOR
	}
	sets := []string{"optimizer.dense.kind=adagrad", "optimizer.sparse.kind=adagrad", "ec.code=" + code, "cache.mode=" + b.o.text("mode"),
		"data.law=" + b.o.text("law"), "checkpoint.dir=" + dir, "checkpoint.keep=1", fmt.Sprint("ec.commit_every=", j.every)}
	if code != "none" {
		sets = append(sets, fmt.Sprint("ec.k=", j.k), "ec.r=1")
	}
	of := job{batch: b.ranks * b.o.number("batch"), ranks: b.ranks, threads: b.o.number("threads")}
	if g.cfg, err = s.config(of, sets...); err != nil {
		return err
	}
	for _, n := range g.cfg.Model.TableRows() {
		g.rows += n
	}
	o := train.Options{Observer: silent{}, Stop: neverStop, Progress: func(data.Progress) error { return nil }, World: b.linkedWorld()}
	if j.like {
		if err := g.addBaseline(&o); err != nil {
			return err
		}
	}
	const most = 1 << 20 // steps
	info, err := train.Try(env.Real(), g.cfg, o, most, g.runRank)
	if err != nil {
		return err
	}
	if b.report == nil {
		b.report = b.o.newReport(info.Device)
		b.report.writeHeader(b.out)
	}
	return g.addFigures(info)
}

// linkedWorld is a world of all ranks in this process, behind emulated links.
func (b *protectionRun) linkedWorld() *train.World {
	return &train.World{Processes: 1, Neighbours: 1, Join: func([]int) ([]transport.Endpoint, error) { return b.linkedEndpoints(), nil }}
}

func (b *protectionRun) linkedEndpoints() []transport.Endpoint {
	e := env.Real()
	eps := transport.NewMem(e, b.ranks, 1)
	for i := range eps {
		eps[i] = transport.EmulateLink(e, eps[i], b.link)
	}
	return eps
}

// addBaseline adds ECRec's commits to the options of a job. Training waits for them, so that their links carry nothing else meanwhile.
func (g *guardedJob) addBaseline(o *train.Options) error {
	layout, err := ec.NewLayout(g.b.ranks, g.job.k, 1)
	if err != nil {
		return err
	}
	o.Sinks = append(o.Sinks, protection.New(protection.Options{Layout: layout, Slots: (g.rows + int64(g.b.ranks) - 1) / int64(g.b.ranks),
		Endpoints: g.b.linkedEndpoints(), Variant: &g.variant,
		Gradient: func(rank int) kernels.Buffer { return kernels.HostBuffer(g.dense[rank]) }}))
	return nil
}

// runRank is the work of a rank.
func (g *guardedJob) runRank(t *train.Trial) error {
	e, o := env.Real(), g.b.o
	lookups := len(g.cfg.Model.TableRows()) * model.ShapeOf(g.cfg.ModelConfig()).RowWidth()
	g.dense[t.Rank()] = make([]float32, t.Model().Params().Grad.Floats())
	t.SetModel(newStandIn(e, t.Model(), lookups, g.b.compute))
	if err := t.TouchAll(); err != nil {
		return err
	}
	const most = 1 << 20 // steps
	mode := t.Mode(g.cfg.Cache.Mode)
	if mode == lrpp.Cached {
		if err := t.OpenCache(most); err != nil {
			return err
		}
	}
	t.SetMode(mode)
	if err := g.choosesSteps(t, mode); err != nil {
		return err
	}
	for turn := -1; turn < o.repeats(); turn++ { // of the first turn only systems, which take their memory
		if turn >= 0 && g.turns.IsEnded(turn) {
			return measure.ErrEnded
		}
		for i, of := range g.job.guards {
			var x [2]guardBlock
			for k, of := range []guard{noGuard, of} {
				if turn < 0 && (k == 0 || of.minutes > 0) {
					continue
				}
				steps := g.blockSteps(of)
				if turn < 0 {
					steps = min(steps, 2*g.job.every)
				}
				var err error
				if x[k], err = g.runBlock(t, mode, of, steps); err != nil {
					return err
				}
			}
			if turn >= 0 && t.Rank() == 0 {
				g.plain[i], g.with[i] = append(g.plain[i], x[0]), append(g.with[i], x[1])
			}
		}
	}
	return nil
}

// choosesSteps finds the number of steps of a block: those that last as long as the time between two checkpoints.
func (g *guardedJob) choosesSteps(t *train.Trial, mode lrpp.Mode) error {
	const probe = 6
	for range 2 { // the first one takes memory
		x, err := g.runBlock(t, mode, noGuard, probe)
		if err != nil {
			return err
		}
		if t.Rank() == 0 {
			g.steps = max(2, int(1e3*g.b.interval(30).Seconds()/x.perStep()+0.5))
		}
	}
	return t.Barrier()
}

// blockSteps is the number of steps of a block: the time between two checkpoints, or at least leastSteps, and complete epochs of a code.
func (g *guardedJob) blockSteps(of guard) int {
	if of.minutes > 0 {
		return g.steps * of.minutes / 30
	}
	steps := g.steps
	if !g.b.o.Tiny {
		steps = max(steps, leastSteps)
	}
	return (steps + g.job.every - 1) / g.job.every * g.job.every
}

// runBlock trains a block. Its times are rank 0's.
func (g *guardedJob) runBlock(t *train.Trial, mode lrpp.Mode, of guard, steps int) (x guardBlock, err error) {
	if of.k == 0 {
		defer t.SuspendProtection()()
	}
	if of.like != nil && t.Rank() == 0 {
		g.variant = *of.like
	}
	if err := t.Barrier(); err != nil {
		return x, err
	}
	warm := max(warmSteps, g.job.every)
	pass := t.Start(mode, warm+steps)
	defer func() { pass.Close(err) }()
	for range warm {
		if err := pass.Train(); err != nil {
			return x, err
		}
	}
	before := t.Cost()
	if err := t.Barrier(); err != nil {
		return x, err
	}
	began := time.Now()
	for range steps {
		if err := pass.Train(); err != nil {
			return x, err
		}
		x.ends = append(x.ends, time.Since(began))
	}
	if of.minutes > 0 {
		if err := g.pauseToSave(t, &x); err != nil {
			return x, err
		}
	}
	if err := t.Barrier(); err != nil {
		return x, err
	}
	x.steps, x.took, x.cost = steps, time.Since(began), t.Cost().Since(before, steps)
	_, err = t.Settle()
	return x, err
}

// pauseToSave saves a checkpoint, and waits until a store of the rate of the setting has taken its rows. All ranks write to one store.
// The dense part, which the scale does not divide, takes no time there.
func (g *guardedJob) pauseToSave(t *train.Trial, x *guardBlock) error {
	began := time.Now()
	if err := t.SettleAndSave(); err != nil {
		return err
	}
	x.saved = time.Since(began)
	if t.Rank() == 0 {
		size, err := sizeOfCheckpoint(g.cfg.Checkpoint.Dir, g.rows)
		if err != nil {
			return err
		}
		g.saved = size
		if rate := g.b.o.number("store"); rate > 0 {
			time.Sleep(time.Duration(size.rows/float64(rate)*1e3) - x.saved)
		}
	}
	if err := t.Barrier(); err != nil {
		return err
	}
	x.paused = time.Since(began)
	return nil
}

// checkpointSize is the bytes of a checkpoint: of its files of rows, and of all files.
type checkpointSize struct{ rows, all float64 }

// sizeOfCheckpoint returns the size of the newest checkpoint in a folder. It is an error if that lacks some of the rows of the model.
func sizeOfCheckpoint(dir string, rows int64) (size checkpointSize, err error) {
	found, err := checkpoint.List(env.Real(), dir)
	if err != nil {
		return size, err
	}
	if len(found) == 0 || found[0].Err != nil {
		return size, fmt.Errorf("bench: of %d checkpoints in %s the newest cannot be read", len(found), dir)
	}
	has := int64(0)
	for _, f := range found[0].AllFiles() {
		size.all += float64(f.Bytes)
		if f.Rows > 0 {
			has, size.rows = has+f.Rows, size.rows+float64(f.Bytes)
		}
	}
	if has != rows {
		return size, fmt.Errorf("bench: the checkpoint has %d of %d rows", has, rows)
	}
	return size, nil
}
