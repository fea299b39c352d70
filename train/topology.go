package train

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/shard"
)

// topology follows from the config alone: the part of each rank, the rows that it owns and
// their size, and the optimizers. It does not change.
type topology struct {
	cfg    *config.Config
	ranks  int
	roles  roles
	schema data.Schema
	place  placement.Map
	layout ec.Layout // of the rows' owners; zero if no rows are coded
	shape  model.Shape
	width  int // weights of a row

	denseOpt Schedule
	rows     rowSchedule
}

// newTopology resolves a config. If rows are coded it groups their owners.
func newTopology(c *config.Config, coded bool) (t topology, err error) {
	t = topology{cfg: c, ranks: c.Job.Ranks, roles: rolesOf(c)}
	t.schema = data.Schema{Dense: c.Data.DenseCount(), Tables: c.Model.TableRows(), TableOf: c.Model.TableNumbers()}
	t.place = placement.New(t.schema.Tables, t.roles.rows)
	if coded {
		if t.layout, err = ec.NewLayout(t.roles.rows, c.EC.K, c.EC.R); err != nil {
			return t, config.Errorf("%v", err)
		}
	}
	t.shape = model.ShapeOf(c.ModelConfig())
	t.width = t.shape.RowWidth()
	t.denseOpt, t.rows = scheduleOf(c.Optimizer.Dense), rowScheduleOf(t.shape.Row, c.Optimizer)
	return t, nil
}

// rowState is the optimizer state of a row, in floats.
func (t *topology) rowState() int { return t.rows.countState() }

// shardOptions describes the rows of an owner, -1 for a rank that owns none.
func (t *topology) shardOptions(owner int) shard.Options {
	o := shard.Options{Map: t.place, Owner: owner, Seed: t.cfg.Job.Seed, Width: t.width, State: t.rowState()}
	for _, part := range t.shape.Row {
		o.Parts = append(o.Parts, shard.Part{Width: part.Width, Zero: part.Init == model.Zero})
	}
	return o
}

// bytesPerRow is the size of a row with its optimizer state.
func (t *topology) bytesPerRow() int { return 4 * (t.width + t.rowState()) }

// cacheRows is how many rows of one owner fit into a cache of some bytes, at least 1 and at
// most all of them.
func (t *topology) cacheRows(bytes int64) int64 {
	rows := bytes / int64(t.bytesPerRow()) / int64(t.roles.rows)
	return min(max(1, rows), t.place.Slots(0))
}

// lengthKey names the key that decides how many steps the run has.
func (t *topology) lengthKey() string {
	if n := t.cfg.Train.Iterations; n > 0 {
		return fmt.Sprintf("train.iterations = %d", n)
	}
	return fmt.Sprintf("train.epochs = %d", t.cfg.Train.Epochs)
}

// checkpointModel describes the model to package checkpoint.
func (t *topology) checkpointModel() checkpoint.Model {
	m := checkpoint.Model{
		Kind: t.cfg.Model.Kind, Seed: t.cfg.Job.Seed, Width: t.width, RowState: t.rowState(),
		Sparse: t.cfg.Optimizer.Sparse.Kind, Dense: t.cfg.Optimizer.Dense.Kind, DenseState: t.denseOpt.Kind.DenseState(1),
	}
	for table, rows := range t.schema.Tables {
		m.Tables = append(m.Tables, checkpoint.Table{Name: t.shape.Row[0].Tensor(table), Rows: rows})
	}
	if len(t.shape.Row) > 1 {
		for k, part := range t.shape.Row {
			p := checkpoint.RowPart{Width: part.Width, Optimizer: t.rows[k].schedule.Kind.String()}
			if part.Init == model.Zero {
				p.Init = checkpoint.InitZero
			}
			for table := range t.schema.Tables {
				p.Tensors = append(p.Tensors, part.Tensor(table))
			}
			m.Parts = append(m.Parts, p)
		}
	}
	for _, tensor := range t.shape.Tensors {
		m.Tensors = append(m.Tensors, checkpoint.Tensor{Name: tensor.Name, Shape: tensor.Shape()})
	}
	for _, tensor := range t.shape.Statistics {
		m.Statistics = append(m.Statistics, checkpoint.Tensor{Name: tensor.Name, Shape: tensor.Shape()})
	}
	return m
}

// workload follows from config and data: the steps, and the size of slices.
type workload struct {
	order     data.Order
	steps     int64
	evalBatch int
	maxSlice  int // samples of the largest slice
}

// leastEvalBatch keeps evaluation efficient if training batches are small.
const leastEvalBatch = 4096

// newWorkload plans the steps over a source for training and one for evaluation. Either may
// be nil.
func newWorkload(t *topology, train, eval data.Source) (w workload, err error) {
	c, largest := t.cfg, 0
	if train != nil {
		w.order = data.Order{Samples: train.Len(), Batch: c.Train.GlobalBatch,
			Shuffle: c.Data.Shuffle == "block", Seed: c.Job.Seed}
		w.steps = int64(c.Train.Iterations)
		if w.steps == 0 {
			switch _, isTopic := train.(*data.Messages); {
			case isTopic:
				w.steps = config.MaxSteps // or fewer: see feed.Pipeline.Ends
			case train.Len() == math.MaxInt64:
				return w, config.Errorf("train.epochs: synthetic data has no end; set train.iterations instead")
			default:
				w.steps = int64(c.Train.Epochs) * w.order.StepsPerEpoch()
			}
		}
		largest = int(min(int64(c.Train.GlobalBatch), train.Len()))
	}
	if eval != nil {
		w.evalBatch = int(min(int64(max(c.Train.GlobalBatch, leastEvalBatch)), eval.Len()))
		largest = max(largest, w.evalBatch)
	}
	w.maxSlice = (largest + t.roles.trainers - 1) / t.roles.trainers
	return w, nil
}
