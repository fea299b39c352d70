package config

import (
	"math"
	"strings"
)

// Limits, so that a slip of the finger is an error and not an allocation.
const (
	maxRanks   = 4096
	maxThreads = 4096
	maxWidth   = 1 << 20        // of a layer, of an embedding
	maxLayers  = 64             // of one MLP
	maxTables  = 1 << 12        //
	maxRows    = 1 << 40        // of all tables
	maxIDs     = math.MaxUint32 // of one table: an id is 32 bits
	maxLookups = math.MaxInt32  // of one batch: positions are int32
	maxSteps   = math.MaxInt32
)

// checkNames checks the values that are one of a few words.
func (c *Config) checkNames(src *source) error {
	if c.Optimizer.Dense.Kind == "rowwise_adagrad" {
		return src.errorf("optimizer.dense.kind", "rowwise_adagrad keeps one number per row and is for [optimizer.sparse] only; use \"adagrad\"")
	}
	for _, e := range []struct {
		key, value string
		allowed    []string
	}{
		{"job.device", c.Job.Device, []string{"auto", "cpu", "cuda"}},
		{"data.format", c.Data.Format, []string{"synthetic", "csv", "criteo-tsv", "criteo-bin", "record", "avazu-csv"}},
		{"data.shuffle", c.Data.Shuffle, []string{"none", "block"}},
		{"data.on_error", c.Data.OnError, []string{"fail", "skip"}},
		{"model.kind", c.Model.Kind, []string{"dlrm", "wdl", "dcn", "deepfm"}},
		{"kernels.blas", c.Kernels.BLAS, []string{"exact", "openblas", "cublas", "cublas-tf32", "cublas-bf16"}},
		{"optimizer.dense.kind", c.Optimizer.Dense.Kind, []string{"sgd", "momentum", "adagrad", "adam"}},
		{"optimizer.sparse.kind", c.Optimizer.Sparse.Kind, []string{"sgd", "momentum", "adagrad", "rowwise_adagrad", "adam"}},
		{"collectives.transport", c.Collectives.Transport, []string{"auto", "mem", "tcp", "mpi", "nccl"}},
		{"cache.mode", c.Cache.Mode, []string{"auto", "none", "lrpp", "planned"}},
		{"ec.code", c.EC.Code, []string{"none", "xor", "rs"}},
		{"store.tier", c.Store.Tier, []string{"dram", "tiered"}},
		{"checkpoint.kind", c.Checkpoint.Kind, []string{"full", "incremental"}},
	} {
		if !in(e.value, e.allowed...) {
			return src.errorf(e.key, "%q is not one of %s", e.value, strings.Join(e.allowed, ", "))
		}
	}
	return nil
}

// checkValues checks numbers, and that values fit each other.
func (c *Config) checkValues(src *source) error {
	for _, check := range []func(*source) error{
		c.checkRanges, c.checkRoles, c.checkLength, c.checkData, c.checkTables, c.checkLayers, c.checkOptimizers,
	} {
		if err := check(src); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkRanges(src *source) error {
	for _, r := range []struct {
		key              string
		value, low, high int
	}{
		{"job.ranks", c.Job.Ranks, 1, maxRanks},
		{"job.threads", c.Job.Threads, 0, maxThreads},
		{"model.embedding_dim", c.Model.EmbeddingDim, 1, maxWidth},
		{"model.cross_layers", c.Model.CrossLayers, 0, maxLayers},
		{"model.cross_rank", c.Model.CrossRank, 0, maxWidth},
		{"train.global_batch", c.Train.GlobalBatch, 1, maxSteps},
		{"train.iterations", c.Train.Iterations, 0, maxSteps},
		{"train.epochs", c.Train.Epochs, 0, maxSteps},
		{"train.eval_every", c.Train.EvalEvery, 0, maxSteps},
		{"train.log_every", c.Train.LogEvery, 1, maxSteps},
		{"ranks.servers", c.Ranks.Servers, 0, maxRanks},
		{"ranks.trainers", c.Ranks.Trainers, 0, maxRanks},
		{"ranks.readers", c.Ranks.Readers, 0, maxRanks},
		{"ec.k", c.EC.K, 1, maxRanks},
		{"ec.r", c.EC.R, 1, maxRanks},
		{"ec.commit_every", c.EC.CommitEvery, 1, maxSteps},
		{"elastic.spares", c.Elastic.Spares, 0, maxRanks},
		{"elastic.max_restarts", c.Elastic.MaxRestarts, 0, maxSteps},
		{"checkpoint.keep", c.Checkpoint.Keep, 0, maxSteps},
	} {
		if r.value < r.low || r.value > r.high {
			return src.errorf(r.key, "%d is out of range; choose %d to %d", r.value, r.low, r.high)
		}
	}
	if c.Elastic.Heartbeat <= 0 {
		return src.errorf("elastic.heartbeat", "must be longer than zero, like \"200ms\"")
	}
	switch {
	case c.EC.Code == "none" && c.Elastic.Spares > 0:
		return src.errorf("elastic.spares", "%d processes would wait for ever: with ec.code = \"none\" the first loss ends the job; set ec.code to \"xor\" or \"rs\"", c.Elastic.Spares)
	case c.EC.Code == "xor" && c.EC.R != 1:
		return src.errorf("ec.r", "xor has one parity row in a stripe, not %d; use 1, or ec.code = \"rs\"", c.EC.R)
	}
	if !(c.Model.Dropout >= 0 && c.Model.Dropout < 1) {
		return src.errorf("model.dropout", "%v is out of range; choose 0 to less than 1", c.Model.Dropout)
	}
	return nil
}

// checkRoles checks that the parts of [ranks] make up job.ranks.
func (c *Config) checkRoles(src *source) error {
	p := c.Ranks
	switch sum := p.Servers + p.Trainers + p.Readers; {
	case (p.Servers == 0) != (p.Trainers == 0):
		return src.errorf("ranks", "%d servers and %d trainers: set both, or leave both out for ranks that are both", p.Servers, p.Trainers)
	case p.Servers > 0 && sum != c.Job.Ranks:
		return src.errorf("ranks", "%d servers, %d trainers and %d readers are not the %d of job.ranks; leave job.ranks out, or make them agree",
			p.Servers, p.Trainers, p.Readers, c.Job.Ranks)
	case p.Readers >= c.Job.Ranks:
		return src.errorf("ranks.readers", "%d of %d ranks would only read; leave at least one to train", p.Readers, c.Job.Ranks)
	}
	return nil
}

// Trainers is how many ranks train.
func (c *Config) Trainers() int {
	if c.Ranks.Trainers > 0 {
		return c.Ranks.Trainers
	}
	return c.Job.Ranks - c.Ranks.Readers
}

// checkLength checks how long the run is and how large its steps are.
func (c *Config) checkLength(src *source) error {
	t := c.Train
	switch {
	case t.GlobalBatch < c.Trainers():
		return src.errorf("train.global_batch", "%d samples cannot be split over %d ranks; use at least as many samples as ranks that train",
			t.GlobalBatch, c.Trainers())
	case t.Iterations == 0 && t.Epochs == 0:
		return src.errorf("train", "neither iterations nor epochs says how long to train; set one of them")
	case t.Iterations != 0 && t.Epochs != 0:
		return src.errorf("train.epochs", "iterations = %d already says how long to train; remove one of the two", t.Iterations)
	case c.Data.Format == "synthetic" && t.Epochs != 0:
		return src.errorf("train.epochs", "synthetic data has no end; set train.iterations instead")
	case int64(t.GlobalBatch)*int64(len(c.Model.TableRows())) > maxLookups:
		return src.errorf("train.global_batch", "%d samples look up %d rows in one step, over the limit of %d; use a smaller batch",
			t.GlobalBatch, int64(t.GlobalBatch)*int64(len(c.Model.TableRows())), maxLookups)
	}
	return nil
}

func (c *Config) checkData(src *source) error {
	d := c.Data
	if d.Format == "synthetic" {
		if len(d.Train) > 0 {
			return src.errorf("data.train", "synthetic data reads no files; remove it, or name the files' format in data.format")
		}
		if len(d.Eval) > 0 {
			return src.errorf("data.eval", "synthetic data reads no files; remove it, or name the files' format in data.format")
		}
		return nil
	}
	if len(d.Train) == 0 {
		return src.errorf("data.train", "names no file; list the training files, like train = [\"train.bin\"]")
	}
	for i, f := range d.Train {
		if f == "" {
			return src.errorf("data.train", "file %d has an empty name", i)
		}
	}
	for i, f := range d.Eval {
		if f == "" {
			return src.errorf("data.eval", "file %d has an empty name", i)
		}
	}
	if d.Format == "csv" {
		return c.checkCSV(src)
	}
	return nil
}

func (c *Config) checkCSV(src *source) error {
	v := c.Data.CSV
	switch {
	case v.Label == "":
		return src.errorf("data.csv.label", "names no column; name the column that holds 0 or 1")
	case len(v.Dense) == 0:
		return src.errorf("data.csv.dense", "names no column; the bottom MLP needs at least one integer column")
	case len(v.Categorical) == 0:
		return src.errorf("data.csv.categorical", "names no column; each embedding table needs one")
	case len(v.Delimiter) != 1 || strings.ContainsAny(v.Delimiter, "\"\r\n"):
		return src.errorf("data.csv.delimiter", "%q must be one byte, and neither a quote nor a line end", v.Delimiter)
	}
	used := map[string]string{v.Label: "data.csv.label"}
	for _, list := range []struct {
		key     string
		columns []string
	}{{"data.csv.dense", v.Dense}, {"data.csv.categorical", v.Categorical}} {
		for i, column := range list.columns {
			if column == "" {
				return src.errorf(list.key, "column %d has an empty name", i)
			}
			if other, ok := used[column]; ok {
				return src.errorf(list.key, "column %q is already named in %s; name it once", column, other)
			}
			used[column] = list.key
		}
	}
	return nil
}

func (c *Config) checkTables(src *source) error {
	rows := c.Model.TableRows()
	switch n := len(rows); {
	case n == 0:
		return src.errorf("model.tables", "is missing; list the rows of each embedding table, or name a known set like \"criteo-kaggle\"")
	case n > maxTables:
		return src.errorf("model.tables", "has %d tables, over the limit of %d", n, maxTables)
	case c.Data.columnsNamed() && n != len(c.Data.CSV.Categorical):
		return src.errorf("model.tables", "has %d tables for %d columns in data.csv.categorical; give one table per column",
			n, len(c.Data.CSV.Categorical))
	case strings.HasPrefix(c.Data.Format, "criteo-") && n != criteoTables:
		return src.errorf("model.tables", "has %d tables, but %s has %d categorical columns; give one table per column",
			n, c.Data.Format, criteoTables)
	}
	var total int64
	for i, n := range rows {
		if n < 1 {
			return src.errorf("model.tables", "table %d has %d rows; every table needs at least one", i, n)
		}
		if n > maxIDs {
			return src.errorf("model.tables", "table %d has %d rows, over the limit of %d; use a smaller table", i, n, int64(maxIDs))
		}
		if total+n > maxRows {
			return src.errorf("model.tables", "has more than %d rows up to table %d; use smaller tables", int64(maxRows), i)
		}
		total += n
	}
	return nil
}

// checkLayers checks that layers chain: each takes what the one below gives.
func (c *Config) checkLayers(src *source) error {
	m := c.Model
	for _, mlp := range []struct {
		key    string
		widths []int
	}{{"model.bottom_mlp", m.BottomMLP}, {"model.top_mlp", m.TopMLP}} {
		if len(mlp.widths) == 0 || len(mlp.widths) > maxLayers {
			return src.errorf(mlp.key, "has %d layers; give 1 to %d widths", len(mlp.widths), maxLayers)
		}
		for i, w := range mlp.widths {
			if w < 1 || w > maxWidth {
				return src.errorf(mlp.key, "layer %d has width %d; choose 1 to %d", i, w, maxWidth)
			}
		}
	}
	if last := m.BottomMLP[len(m.BottomMLP)-1]; last != m.EmbeddingDim {
		return src.errorf("model.bottom_mlp", "ends in %d, but dlrm multiplies it with embeddings of %d (model.embedding_dim); make them equal",
			last, m.EmbeddingDim)
	}
	if last := m.TopMLP[len(m.TopMLP)-1]; last != 1 {
		return src.errorf("model.top_mlp", "ends in %d, but the model has one output; end it in 1", last)
	}
	return nil
}

func (c *Config) checkOptimizers(src *source) error {
	for _, o := range []struct {
		key string
		Optimizer
	}{{"optimizer.dense", c.Optimizer.Dense}, {"optimizer.sparse", c.Optimizer.Sparse}} {
		unit := func(x float64) bool { return x >= 0 && x < 1 }
		switch {
		case !(o.LR > 0 && o.LR <= math.MaxFloat32):
			return src.errorf(o.key+".lr", "%v is not a positive number", o.LR)
		case !(o.Eps >= 0 && o.Eps <= math.MaxFloat32):
			return src.errorf(o.key+".eps", "%v is not zero or a positive number", o.Eps)
		case !unit(o.Momentum):
			return src.errorf(o.key+".momentum", "%v is out of range; choose 0 to less than 1", o.Momentum)
		case !unit(o.Betas[0]) || !unit(o.Betas[1]):
			return src.errorf(o.key+".betas", "[%v, %v] are out of range; choose 0 to less than 1", o.Betas[0], o.Betas[1])
		case o.WarmupSteps < 0 || o.WarmupSteps > maxSteps:
			return src.errorf(o.key+".warmup_steps", "%d is out of range; choose 0 to %d", o.WarmupSteps, maxSteps)
		case o.DecayStart < 0 || o.DecayStart > maxSteps:
			return src.errorf(o.key+".decay_start", "%d is out of range; choose 0 to %d", o.DecayStart, maxSteps)
		case o.DecaySteps < 0 || o.DecaySteps > maxSteps:
			return src.errorf(o.key+".decay_steps", "%d is out of range; choose 0 to %d", o.DecaySteps, maxSteps)
		case o.DecaySteps == 0 && o.DecayStart > 0:
			return src.errorf(o.key+".decay_start", "is %d, but decay_steps does not say how long the decay takes; set both", o.DecayStart)
		case o.DecaySteps > 0 && o.DecayStart < o.WarmupSteps:
			return src.errorf(o.key+".decay_start", "%d lies inside the warm-up of %d steps; start the decay after it", o.DecayStart, o.WarmupSteps)
		}
	}
	return nil
}

// checkProcesses checks what depends on how many processes run the job.
func (c *Config) checkProcesses(src *source, processes int) error {
	switch {
	case processes > c.Job.Ranks:
		return src.errorf("job.ranks", "%d ranks cannot be spread over %d processes: each hosts one at least; start fewer processes, or raise job.ranks",
			c.Job.Ranks, processes)
	case processes > 1 && c.Collectives.Transport == "mem":
		return src.errorf("collectives.transport", "\"mem\" connects the ranks of one process, and this job has %d; use \"auto\" or \"tcp\"", processes)
	}
	return nil
}
