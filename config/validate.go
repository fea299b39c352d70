package config

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
)

// Limits, so that a slip of the finger is an error and not an allocation.
const (
	maxName    = 200 // bytes
	maxRanks   = 4096
	maxThreads = 4096
	maxWidth   = 1 << 20        // of a layer, of an embedding
	maxLayers  = 64             // of one MLP
	maxTables  = 1 << 12        //
	maxRows    = 1 << 40        // of all tables
	maxIDs     = math.MaxUint32 // of one table: an id is 32 bits
	maxLookups = math.MaxInt32  // of one batch: positions are int32
	MaxSteps   = math.MaxInt32

	minHeartbeat = 10 * time.Millisecond
)

// checkNames checks the values that are one of a few words.
func (c *Config) checkNames(src *source) error {
	if i := strings.IndexFunc(c.Job.Name, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || len(c.Job.Name) > maxName {
		return src.errorf("job.name", "%q is not a printable name; use up to %d printable bytes", c.Job.Name, maxName)
	}
	if kind, ok := kernels.FindRule(c.Optimizer.Dense.Kind); ok && !kind.Rule().Dense() {
		return src.errorf("optimizer.dense.kind", "%v keeps its state per row and is for [optimizer.sparse] only; use one of %s", kind,
			strings.Join(kernels.RuleNames(true), ", "))
	}
	for _, e := range c.choices() {
		if !in(e.value, e.allowed...) {
			return src.errorf(e.key, "%q is not one of %s", e.value, strings.Join(e.allowed, ", "))
		}
	}
	return nil
}

// choice is a key whose value is one of a few words.
type choice struct {
	key, value string
	allowed    []string
}

// choices lists the keys whose values are a few words.
func (c *Config) choices() []choice {
	return []choice{
		{"job.device", c.Job.Device, []string{"auto", "cpu", "cuda"}},
		{"job.secure", c.Job.Secure, []string{"auto", "on", "off"}},
		{"data.format", c.Data.Format, data.FormatNames()},
		{"data.shuffle", c.Data.Shuffle, []string{"none", "block"}},
		{"data.on_error", c.Data.OnError, []string{"fail", "skip"}},
		{"data.law", c.Data.Law, data.Laws},
		{"data.kafka.begin", c.Data.Kafka.Begin, []string{BeginFirst, BeginLast}},
		{"data.kafka.at_end", c.Data.Kafka.AtEnd, []string{AtEndStop, AtEndWait}},
		{"model.kind", c.Model.Kind, model.Names()},
		{"train.keep", c.Train.Keep, []string{"best", "last"}},
		{"train.best_by", c.Train.BestBy, []string{"logloss", "auc"}},
		{"model.interaction", c.Model.Interaction, model.FormNames(model.Interactions)},
		{"model.cross", c.Model.Cross, model.FormNames(model.Crosses)},
		{"model.structure", c.Model.Structure, model.FormNames(model.Structures)},
		{"kernels.blas", c.Kernels.BLAS, []string{"exact", "exact-tc", "openblas", "cublas", "cublas-tf32", "cublas-bf16"}},
		{"optimizer.dense.kind", c.Optimizer.Dense.Kind, kernels.RuleNames(true)},
		{"optimizer.sparse.kind", c.Optimizer.Sparse.Kind, kernels.RuleNames(false)},
		{"optimizer.linear.kind", c.Optimizer.Linear.Kind, kernels.RuleNames(false)},
		{"collectives.transport", c.Collectives.Transport, []string{"auto", "mem", "tcp", "mpi", "nccl"}},
		{"cache.mode", c.Cache.Mode, append([]string{"auto"}, lrpp.ModeNames()...)},
		{"ec.code", c.EC.Code, ec.AllNames()},
		{"store.tier", c.Store.Tier, []string{"dram", "file"}},
		{"checkpoint.kind", c.Checkpoint.Kind, []string{"full", "incremental"}},
	}
}

// checkValues checks numbers, and that values fit each other.
func (c *Config) checkValues(src *source) error {
	for _, check := range []func(*source) error{
		c.checkFormat, c.checkTopic, c.checkRanges, c.checkDevice, c.checkRoles, c.checkSecure, c.checkLength, c.checkData,
		c.checkColumns, c.checkTables,
		c.checkFeatures, c.checkLayers, c.checkOptimizers, c.checkMetrics, c.checkPatience, c.checkStore, c.checkStream,
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
		{"train.global_batch", c.Train.GlobalBatch, 1, MaxSteps},
		{"train.iterations", c.Train.Iterations, 0, MaxSteps},
		{"train.epochs", c.Train.Epochs, 0, MaxSteps},
		{"train.eval_every", c.Train.EvalEvery, 0, MaxSteps},
		{"train.patience", c.Train.Patience, 0, MaxSteps},
		{"train.plateau_patience", c.Train.PlateauPatience, 0, MaxSteps},
		{"train.log_every", c.Train.LogEvery, 1, MaxSteps},
		{"ranks.servers", c.Ranks.Servers, 0, maxRanks},
		{"ranks.trainers", c.Ranks.Trainers, 0, maxRanks},
		{"ranks.readers", c.Ranks.Readers, 0, maxRanks},
		{"ec.k", c.EC.K, 1, maxRanks},
		{"ec.r", c.EC.R, 1, maxRanks},
		{"ec.commit_every", c.EC.CommitEvery, 1, MaxSteps},
		{"elastic.spares", c.Elastic.Spares, 0, maxRanks},
		{"elastic.max_restarts", c.Elastic.MaxRestarts, 0, MaxSteps},
		{"checkpoint.keep", c.Checkpoint.Keep, 0, MaxSteps},
	} {
		if r.value < r.low || r.value > r.high {
			return src.errorf(r.key, "%d is out of range; choose %d to %d", r.value, r.low, r.high)
		}
	}
	if h := time.Duration(c.Elastic.Heartbeat); h < minHeartbeat {
		return src.errorf("elastic.heartbeat", "%v is too short: a busy machine is late by more; choose %v or longer, like \"200ms\"", h,
			minHeartbeat)
	}
	switch {
	case c.EC.Code == ec.None && c.Elastic.Spares > 0:
		return src.errorf("elastic.spares", "%d processes would wait for ever: with ec.code = \"none\" the first loss ends the job; "+
			"set ec.code to \"xor\" or \"rs\"", c.Elastic.Spares)
	case c.EC.Code == ec.None:
		return nil
	}
	if family, _ := ec.Find(c.EC.Code); !family.Allows(c.EC.R) {
		return src.errorf("ec.r", "%d parity rows in a stripe are too many or too few: ec.code = %q allows %s; use that, or ec.code = %q",
			c.EC.R, c.EC.Code, family.Parities(), ec.Names(c.EC.R)[0])
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

// checkLength checks the length of the run and the size of its steps.
func (c *Config) checkLength(src *source) error {
	t := c.Train
	switch {
	case t.GlobalBatch < c.Trainers():
		return src.errorf("train.global_batch", "%d samples cannot be split over %d ranks; use at least as many samples as ranks that train",
			t.GlobalBatch, c.Trainers())
	case t.Iterations == 0 && t.Epochs == 0:
		return src.errorf("train", "neither iterations nor epochs is set; set one of them")
	case t.Iterations != 0 && t.Epochs != 0:
		return src.errorf("train.epochs", "iterations = %d already sets the length of the run; remove one of the two", t.Iterations)
	case c.readsNoFiles() && t.Epochs != 0:
		return src.errorf("train.epochs", "%s data has no end; set train.iterations instead", c.Data.Format)
	case int64(t.GlobalBatch)*c.leastIDs() > maxLookups:
		return src.errorf("train.global_batch", "%d samples look up %d rows in one step, over the limit of %d; use a smaller batch",
			t.GlobalBatch, int64(t.GlobalBatch)*c.leastIDs(), maxLookups)
	}
	return nil
}

// checkStore checks that rows beyond memory have memory, and a place.
func (c *Config) checkStore(src *source) error {
	s := c.Store
	switch {
	case s.Tier == "dram" && s.DRAMBytes != 0:
		return src.errorf("store.dram_bytes", "limits the memory for rows whose others are on a disk, and store.tier is \"dram\"; set "+
			"store.tier = \"file\", or leave it out")
	case s.Tier == "file" && s.DRAMBytes <= 0:
		return src.errorf("store.tier", "\"file\" needs store.dram_bytes, the memory for rows of each rank, like \"8GiB\"")
	case s.Tier == "file" && c.Job.Device == "cuda":
		return src.errorf("store.tier", "\"file\" is for CPUs in this version, and job.device is \"cuda\"; use \"dram\", or job.device = \"cpu\"")
	}
	return nil
}

// checkPatience checks that a run which acts on its evaluations has some.
func (c *Config) checkPatience(src *source) error {
	t := c.Train
	if f := t.PlateauFactor; !(f > 0 && f < 1) {
		return src.errorf("train.plateau_factor", "%v is out of range; choose more than 0 and less than 1", f)
	}
	for _, p := range []struct {
		key   string
		value int
	}{{"train.patience", t.Patience}, {"train.plateau_patience", t.PlateauPatience}} {
		switch {
		case p.value > 0 && t.EvalEvery == 0:
			return src.errorf(p.key, "counts evaluations, and there is one at the end only; set train.eval_every, or remove it")
		case p.value > 0 && len(c.Data.Eval) == 0:
			return src.errorf(p.key, "counts evaluations, and data.eval names no file; list the evaluation files, or remove it")
		}
	}
	return nil
}

// checkFormat finds a missing data.format, before other keys seem not to fit its default.
func (c *Config) checkFormat(src *source) error {
	if !src.mentions("data.format") && src.mentions("data.csv") {
		return src.errorf("data.format", "is missing; [data.csv] is there: did you mean format = \"csv\"?")
	}
	return nil
}

func (c *Config) checkData(src *source) error {
	d := c.Data
	for _, list := range []struct {
		key   string
		files []string
	}{{"data.train", d.Train}, {"data.eval", d.Eval}} {
		if c.readsNoFiles() && len(list.files) > 0 {
			return src.errorf(list.key, "%s data reads no files; remove it, or name the files' format in data.format", d.Format)
		}
		for i, f := range list.files {
			if f == "" {
				return src.errorf(list.key, "file %d has an empty name", i)
			}
		}
	}
	if len(d.Train) == 0 && !c.readsNoFiles() {
		return src.errorf("data.train", "names no file; list the training files, like train = [\"train.bin\"]")
	}
	format, _ := data.FindFormat(d.Format)
	if format.Check != nil {
		o := c.DataOptions(false)
		if refused := (*data.KeyError)(nil); errors.As(format.Check(&o), &refused) {
			return src.errorf("data."+refused.Key, "%s", refused.What)
		}
	}
	if v := d.CSV; format.Reads("csv.delimiter") && (len(v.Delimiter) != 1 || strings.ContainsAny(v.Delimiter, "\"\r\n")) {
		return src.errorf("data.csv.delimiter", "%q must be one byte, and neither a quote nor a line end", v.Delimiter)
	}
	if v := d.CSV.Separator; len(v) > 1 {
		return src.errorf("data.csv.separator", "%q must be one byte, such as \"|\"", v)
	}
	return nil
}

// readsNoFiles reports whether the data is made, not read.
func (c *Config) readsNoFiles() bool {
	format, ok := data.FindFormat(c.Data.Format)
	return ok && format.Endless
}

func (c *Config) checkTables(src *source) error {
	rows := c.Model.TableRows()
	_, categorical := c.Data.countColumns()
	switch n := len(rows); {
	case n == 0:
		return src.errorf("model.tables", "is missing; list the rows of each embedding table, or name a known set like \"criteo-kaggle\"")
	case n > maxTables:
		return src.errorf("model.tables", "has %d tables, over the limit of %d", n, maxTables)
	case len(c.Model.TableOf) > 0: // checkFeatures
	case categorical != data.Any && n != categorical && len(c.Data.CSV.Categorical) > 0:
		return src.errorf("model.tables", "has %d tables for %d columns in data.csv.categorical; give one table per column", n, categorical)
	case categorical != data.Any && n != categorical:
		return src.errorf("model.tables", "has %d tables, but %s has %d categorical columns; give one table per column",
			n, c.Data.Format, categorical)
	}
	var total int64
	for i, n := range rows {
		if n < 1 && !c.Model.Tables.IsCounted() {
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

// checkLayers checks the widths of layers, and that they fit the kind of model.
func (c *Config) checkLayers(src *source) error {
	m := c.Model
	kind, _ := model.Find(m.Kind)
	for _, mlp := range []struct {
		key    string
		widths []int
	}{{"bottom_mlp", m.BottomMLP}, {"top_mlp", m.TopMLP}} {
		if !kind.Reads(mlp.key) {
			continue
		}
		key := "model." + mlp.key
		if len(mlp.widths) == 0 && !slices.Contains(kind.Optional, mlp.key) || len(mlp.widths) > maxLayers {
			return src.errorf(key, "has %d layers; give 1 to %d widths", len(mlp.widths), maxLayers)
		}
		for i, w := range mlp.widths {
			if w < 1 || w > maxWidth {
				return src.errorf(key, "layer %d has width %d; choose 1 to %d", i, w, maxWidth)
			}
		}
	}
	if refused := (*model.KeyError)(nil); errors.As(model.Check(c.ModelConfig()), &refused) {
		return src.errorf("model."+refused.Key, "%s", refused.What)
	}
	return nil
}

// checkSecure refuses transports that cannot be encrypted here.
func (c *Config) checkSecure(src *source) error {
	if t := c.Collectives.Transport; c.Job.Secure == "on" && in(t, "mpi", "nccl") {
		return src.errorf("job.secure", "\"on\" cannot encrypt the traffic of collectives.transport = %q, which the fabric carries; "+
			"use transport \"tcp\" or \"auto\", or job.secure = \"auto\"", t)
	}
	return nil
}

// checkProcesses checks the settings that depend on the number of processes.
func (c *Config) checkProcesses(src *source, processes int) error {
	switch {
	case processes > c.Job.Ranks:
		return src.errorf("job.ranks", "%d ranks cannot be spread over %d processes: each hosts one at least; start fewer processes, "+
			"or raise job.ranks",
			c.Job.Ranks, processes)
	case processes > 1 && c.Collectives.Transport == "mem":
		return src.errorf("collectives.transport", "\"mem\" connects the ranks of one process, and this job has %d; use \"auto\" or \"tcp\"",
			processes)
	}
	return nil
}

// leastIDs is the number of ids of a sample, as far as it follows from the config.
func (c *Config) leastIDs() (ids int64) {
	for _, n := range c.Data.Hots.IDs {
		ids += int64(n)
	}
	return max(ids, int64(c.Model.Features()))
}

// checkFeatures checks the lists with an entry for each feature.
func (c *Config) checkFeatures(src *source) error {
	m, features := c.Model, c.Model.Features()
	names := uniqueNames(m.TableOf)
	_, categorical := c.Data.countColumns()
	switch n := len(m.TableOf); {
	case n == 0:
	case len(names) != len(m.TableRows()):
		return src.errorf("model.table_of", "names %d different tables, but model.tables has %d; list the rows of each, in the order "+
			"in which table_of names them first",
			len(names), len(m.TableRows()))
	case categorical != data.Any && n != categorical:
		return src.errorf("model.table_of", "names tables for %d features, but %s has %d categorical columns; name one for each column",
			n, c.Data.Format, categorical)
	case n > maxTables:
		return src.errorf("model.table_of", "has %d features, over the limit of %d", n, maxTables)
	}
	if n := len(m.Pooling); n > 1 && n != features {
		return src.errorf("model.pooling", "has %d words for %d features; write one for all, or one for each", n, features)
	}
	if n := len(c.Data.Hots.IDs); n > 0 && n != features {
		return src.errorf("data.hots", "has %d numbers of ids for %d features; give one for each", n, features)
	}
	if len(c.Data.Hots.IDs) > 0 && c.Data.Law == data.LawBursts {
		return src.errorf("data.law", "%q draws one id for each feature; remove data.hots", c.Data.Law)
	}
	return nil
}
