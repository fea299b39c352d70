package config

import (
	"cmp"
	"math"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/model"
)

// Config is a run config. Field names follow the TOML keys.
type Config struct {
	Job         Job         `toml:"job"`
	Data        Data        `toml:"data"`
	Model       Model       `toml:"model"`
	Kernels     Kernels     `toml:"kernels"`
	Train       Train       `toml:"train"`
	Optimizer   Optimizers  `toml:"optimizer"`
	Collectives Collectives `toml:"collectives"`
	Oracle      Oracle      `toml:"oracle"`
	Cache       Cache       `toml:"cache"`
	Ranks       Ranks       `toml:"ranks"`
	EC          EC          `toml:"ec"`
	Elastic     Elastic     `toml:"elastic"`
	Store       Store       `toml:"store"`
	Checkpoint  Checkpoint  `toml:"checkpoint"`
	Stream      Stream      `toml:"stream"`
	Metrics     Metrics     `toml:"metrics"`
}

// Job names the run, its seed, its ranks and its output.
type Job struct {
	Name    string `toml:"name"` // default: the config file's name without its extension
	Seed    uint64 `toml:"seed"`
	Out     string `toml:"out"`   // default: runs/<name>
	Ranks   int    `toml:"ranks"` // default: the number of processes
	Threads int    `toml:"threads"`
	Device  string `toml:"device"`
	// Secure selects the connections that are encrypted and authenticated. The result
	// does not depend on it.
	Secure string `toml:"secure"`
	// SaveModel writes the final model to model.safetensors in Out.
	SaveModel bool `toml:"save_model"`
	// Digests finds the digest of the whole model at each commit. It commits epochs also where
	// nothing else does.
	Digests bool `toml:"digests"`
	// OnEvent is a command that is run at events such as a loss, a checkpoint or the end.
	OnEvent Command `toml:"on_event"`
}

// Data names the input.
type Data struct {
	Format  string   `toml:"format"`
	Train   []string `toml:"train"`
	Eval    Files    `toml:"eval"` // or a split of Train: see EvalSplit
	Shuffle string   `toml:"shuffle"`
	OnError string   `toml:"on_error"`
	// Transform is the transform of each column that has not the default one.
	Transform Transforms `toml:"transform"`
	MinCount  int        `toml:"min_count"` // samples with a text that has a row of its own
	Hots      Hots       `toml:"hots"`      // empty: one id of each feature
	Law       string     `toml:"law"`       // of synthetic ids
	// Cache is the folder of the record files that text is converted to. Empty: Job.Out.
	Cache string `toml:"cache"`
	CSV   CSV    `toml:"csv"`
	Kafka Kafka  `toml:"kafka"`
}

// CSV names the columns of a delimited file with a header.
type CSV struct {
	Label       string   `toml:"label"`
	Weight      string   `toml:"weight"` // empty: all samples have the weight 1
	Dense       []string `toml:"dense"`
	Categorical []string `toml:"categorical"`
	Delimiter   string   `toml:"delimiter"`
	NA          []string `toml:"na"`        // texts that mean missing, beside the empty text
	Separator   string   `toml:"separator"` // empty: one id in each field
	Bags        []string `toml:"bags"`      // empty: all categorical columns, with a separator
	Weighted    bool     `toml:"weighted"`
}

// setNamed sets the keys that the config does not mention to the columns that a format has by default.
func (v *CSV) setNamed(columns *data.CSV, src *source) {
	if !src.mentions("data.csv.label") {
		v.Label = columns.Label
	}
	if !src.mentions("data.csv.dense") {
		v.Dense = append([]string{}, columns.Dense...)
	}
	if !src.mentions("data.csv.categorical") {
		v.Categorical = append([]string{}, columns.Categorical...)
	}
}

// DenseCount is the number of columns of numbers of a sample.
func (d Data) DenseCount() int {
	dense, _ := d.countColumns()
	return dense
}

// countColumns is how many numbers and categories a sample has. data.Any categories: as many as
// there are tables.
func (d Data) countColumns() (dense, categorical int) {
	format, ok := data.FindFormat(d.Format)
	if !ok {
		return 0, data.Any // checkNames refuses it
	}
	return format.Columns(d.columnNames())
}

// columnNames is [data.csv] as package data has it.
func (d Data) columnNames() data.CSV {
	v := data.CSV{Label: d.CSV.Label, Weight: d.CSV.Weight, Dense: d.CSV.Dense, Categorical: d.CSV.Categorical, NA: d.CSV.NA,
		Transform: d.Transform,
		Bags:      d.CSV.Bags, Weighted: d.CSV.Weighted}
	if d.CSV.Separator != "" {
		v.Separator = d.CSV.Separator[0]
	}
	if d.CSV.Delimiter != "" {
		v.Delimiter = d.CSV.Delimiter[0]
	}
	return v
}

// DataOptions describes the training data to package data, or with eval the evaluation
// data, except Env and Progress.
func (c *Config) DataOptions(eval bool) data.Options {
	d := c.Data
	o := data.Options{Format: d.Format, Files: d.Train, Tables: c.Model.TableRows(), TableOf: c.Model.TableNumbers(),
		Hots: d.Hots.IDs, Law: d.Law, CSV: d.columnNames(), Seed: c.Job.Seed,
		SkipBad: d.OnError == "skip", RecordDir: cmp.Or(c.Data.Cache, c.Job.Out)}
	o.MinCount, o.Fields = int64(d.MinCount), d.Kafka.Columns
	split, ok := c.EvalSplit()
	if ok {
		o.Split = split
		o.Split.Eval = eval
	} else if eval {
		o.Files = d.Eval
		if c.ReadsTopic() {
			o.Format = data.MessageFormat(&o.CSV) // files of such rows, csv with a header
		}
		o.CSV.Weight = "" // evaluations are not weighted
	}
	return o
}

// EvalSplit is the split that data.eval asks for, as in "10%". ok is false if it names files, or nothing.
func (c *Config) EvalSplit() (s data.Split, ok bool) {
	if len(c.Data.Eval) != 1 {
		return s, false
	}
	s, ok, err := data.ParseSplit(c.Data.Eval[0])
	return s, ok && err == nil
}

// EvalFiles are the files of the evaluation data: those of the training data if it is split.
func (c *Config) EvalFiles() []string {
	if _, ok := c.EvalSplit(); ok {
		return c.Data.Train
	}
	return c.Data.Eval
}

// Resolve returns a copy of the config with the rows of the tables of a recipe.
func (c *Config) Resolve(r *data.Recipe) *Config {
	resolved := *c
	resolved.Model.Tables.Rows = r.Schema().Tables
	return &resolved
}

// Model is the shape of the model. A list of layers gives output widths. The input
// width follows from the layer below.
type Model struct {
	Kind         string   `toml:"kind"`
	EmbeddingDim int      `toml:"embedding_dim"`
	Tables       Tables   `toml:"tables"`
	TableOf      []string `toml:"table_of"` // empty: each feature has a table of its own
	Pooling      Pooling  `toml:"pooling"`
	BottomMLP    []int    `toml:"bottom_mlp"`
	TopMLP       []int    `toml:"top_mlp"`
	CrossLayers  int      `toml:"cross_layers"` // dcn
	CrossRank    int      `toml:"cross_rank"`   // dcn
	// BatchNorm and Dropout are those of the hidden layers. Model.Kind has the default of BatchNorm.
	BatchNorm bool    `toml:"batch_norm"`
	Dropout   float64 `toml:"dropout"`
	// Interaction is a form of dlrm, Linear one of wdl, Cross and Structure are those of dcn.
	Interaction string `toml:"interaction"`
	Linear      bool   `toml:"linear"`
	Cross       string `toml:"cross"`
	Structure   string `toml:"structure"`
	// DenseEmbedding gives each dense feature a vector.
	DenseEmbedding bool   `toml:"dense_embedding"` // deepfm
	InitFrom       string `toml:"init_from"`
}

// ModelConfig describes the model to package model, except MaxSamples.
func (c *Config) ModelConfig() model.Config {
	m := c.Model
	return model.Config{
		Kind: m.Kind, Dense: c.Data.DenseCount(), Tables: m.Features(), TableOf: m.TableNumbers(), EmbeddingDim: m.EmbeddingDim,
		BottomMLP: m.BottomMLP, TopMLP: m.TopMLP, Seed: c.Job.Seed,
		BatchNorm: m.BatchNorm, Dropout: m.Dropout, DenseEmbedding: m.DenseEmbedding,
		Interaction: m.Interaction, Linear: m.Linear,
		Cross: m.Cross, CrossLayers: m.CrossLayers, CrossRank: m.CrossRank, Structure: m.Structure,
	}
}

// TableRows is the number of rows of each embedding table.
func (m Model) TableRows() []int64 { return m.Tables.Rows }

// Features is the number of categorical features.
func (m Model) Features() int {
	if n := len(m.TableOf); n > 0 {
		return n
	}
	return len(m.Tables.Rows)
}

// TableNumbers is the table of each feature. Tables are numbered in the order in which table_of
// names them first. Nil: feature f has table f.
func (m Model) TableNumbers() []int { return numberNames(m.TableOf) }

// Means is 1 for each feature whose bags are means, and 0 for each whose bags are sums. Nil: all
// are sums.
func (m Model) Means() []int32 { return m.Pooling.meansOf(m.Features()) }

// Kernels chooses how numbers are computed.
type Kernels struct {
	BLAS string `toml:"blas"`
}

// Train is the length of the run and the size of its steps.
type Train struct {
	GlobalBatch int `toml:"global_batch"`
	Iterations  int `toml:"iterations"` // 0: Epochs is set
	Epochs      int `toml:"epochs"`     // 0: Iterations is set
	EvalEvery   int `toml:"eval_every"` // steps; 0: at the end only
	// Keep selects the model that is saved: that of the best evaluation by BestBy, or the last.
	Keep   string `toml:"keep"`
	BestBy string `toml:"best_by"`
	// Patience is the evaluations in a row without a better one after which the run ends; 0: none do.
	Patience int `toml:"patience"`
	// PlateauPatience is the evaluations in a row without a better one after which the learning
	// rates are multiplied by PlateauFactor; 0: none do.
	PlateauPatience int     `toml:"plateau_patience"`
	PlateauFactor   float64 `toml:"plateau_factor"`
	LogEvery        int     `toml:"log_every"` // steps
	// ClipDense and ClipNorm are the most that the global norm of the dense gradients, or of
	// all gradients, may be. 0: no limit.
	ClipDense float64 `toml:"clip_dense"`
	ClipNorm  float64 `toml:"clip_norm"`
	// PositiveWeight multiplies the losses of samples with label 1.
	PositiveWeight float64 `toml:"positive_weight"`
}

// Optimizers are the update rules of the dense parameters and of the parts of rows.
type Optimizers struct {
	Dense  Optimizer `toml:"dense"`
	Sparse Optimizer `toml:"sparse"` // embeddings
	Linear Optimizer `toml:"linear"` // linear weights; a key that is not set has the value of Sparse
}

// Optimizer is one update rule and its learning-rate schedule, the reference
// DLRM's: linear warm-up over WarmupSteps, hold, and from DecayStart quadratic
// decay to zero over DecaySteps.
type Optimizer struct {
	Kind        string  `toml:"kind"`
	LR          float64 `toml:"lr"`
	Momentum    float64 `toml:"momentum"`
	Eps         float64 `toml:"eps"` // default: 1e-8 for adam and adamw, else 1e-10
	Betas       Betas   `toml:"betas"`
	Beta        float64 `toml:"beta"` // ftrl
	L1          float64 `toml:"l1"`   // ftrl
	L2          float64 `toml:"l2"`   // ftrl
	WeightDecay float64 `toml:"weight_decay"`
	Dense       bool    `toml:"dense"` // of rows: all of them are updated at each step
	WarmupSteps int     `toml:"warmup_steps"`
	DecayStart  int     `toml:"decay_start"`
	DecaySteps  int     `toml:"decay_steps"`
}

// Collectives is the transport between ranks, and the order of sums.
type Collectives struct {
	Transport     string `toml:"transport"`
	Deterministic bool   `toml:"deterministic"`
}

// Oracle is the number of batches whose row ids are planned ahead.
type Oracle struct {
	Lookahead Lookahead `toml:"lookahead"`
}

// Cache is the way in which rows reach the ranks that use them.
type Cache struct {
	Mode        string `toml:"mode"`
	MaxBytes    Size   `toml:"max_bytes"` // per rank
	DelayedSync bool   `toml:"delayed_sync"`
}

// Ranks gives ranks different roles. All zeros: every rank has every role.
type Ranks struct {
	Servers  int `toml:"servers"`
	Trainers int `toml:"trainers"`
	Readers  int `toml:"readers"`
}

// EC is the erasure code over rows.
type EC struct {
	Code        string `toml:"code"`
	K           int    `toml:"k"`
	R           int    `toml:"r"`
	CommitEvery int    `toml:"commit_every"` // steps
	RebuildRate Rate   `toml:"rebuild_rate"` // bytes per second of each rank that lost rows
}

// Elastic is how losses of processes are detected and bounded.
type Elastic struct {
	Spares      int      `toml:"spares"`
	MaxRestarts int      `toml:"max_restarts"`
	Heartbeat   Duration `toml:"heartbeat"`
	Standby     bool     `toml:"standby"`
}

// Store is the place of the rows.
type Store struct {
	Tier      string `toml:"tier"`
	Path      string `toml:"path"`
	DRAMBytes Size   `toml:"dram_bytes"` // 0: no limit
}

// Checkpoint is the folder, the interval and the number of checkpoints.
type Checkpoint struct {
	Dir   string   `toml:"dir"` // default: checkpoints in job.out where Every is set; empty: no checkpoints
	Every Interval `toml:"every"`
	Kind  string   `toml:"kind"`
	Keep  int      `toml:"keep"` // 0: all
}

// Stream is the receiver of updated rows.
type Stream struct {
	To      string `toml:"to"`      // empty: none
	Backlog Size   `toml:"backlog"` // bytes of rows of all ranks
}

// Metrics is where metrics are published, beside metrics.jsonl.
type Metrics struct {
	Listen      string `toml:"listen"`      // for Prometheus: HOST:PORT or :PORT of the first process of a node; empty: none
	Textfile    string `toml:"textfile"`    // for node_exporter; empty: none
	TensorBoard bool   `toml:"tensorboard"` // event files in job.out/tensorboard
}

// Default is the config of an empty file. Eps is NaN: its default depends on the kind.
func Default() *Config {
	rule := func(kind string, lr float64) Optimizer {
		return Optimizer{Kind: kind, LR: lr, Momentum: 0.9, Eps: math.NaN(), Betas: Betas{0.9, 0.999}, Beta: 1}
	}
	c := &Config{
		Job: Job{Seed: 42, Ranks: 1, Device: "auto", Secure: "auto", SaveModel: true, OnEvent: Command{}},
		Data: Data{Format: "criteo-bin", Train: []string{}, Eval: Files{}, Shuffle: "block", OnError: "fail", Law: data.LawIndependent,
			Transform: Transforms{}, MinCount: 1,
			CSV:   CSV{Label: "label", Dense: []string{}, Categorical: []string{}, Delimiter: ",", NA: []string{}, Bags: []string{}},
			Kafka: Kafka{Columns: []string{}, Begin: BeginFirst, AtEnd: AtEndStop}},
		Model: Model{Kind: "dlrm", EmbeddingDim: 16, TableOf: []string{}, Pooling: Pooling{poolSum},
			BottomMLP: []int{512, 256, 16}, TopMLP: []int{512, 256, 1}},
		Kernels:     Kernels{BLAS: "exact"},
		Train:       Train{GlobalBatch: 16384, Keep: "best", BestBy: "logloss", PlateauFactor: 0.1, LogEvery: 10, PositiveWeight: 1},
		Optimizer:   Optimizers{Dense: rule("sgd", 0.1), Sparse: rule("rowwise_adagrad", 0.02), Linear: rule("rowwise_adagrad", 0.02)},
		Collectives: Collectives{Transport: "auto", Deterministic: true},
		Oracle:      Oracle{Lookahead: Lookahead{Batches: 200}},
		Cache:       Cache{Mode: "auto", MaxBytes: 4 << 30, DelayedSync: true},
		EC:          EC{Code: "none", K: 4, R: 1, CommitEvery: 10},
		Elastic:     Elastic{MaxRestarts: 100, Heartbeat: 200e6, Standby: true},
		Store:       Store{Tier: "dram"},
		Checkpoint:  Checkpoint{Kind: "full"},
		Stream:      Stream{Backlog: 256 << 20},
	}
	c.Model.Interaction, c.Model.Cross, c.Model.Structure = model.InteractionDot, model.CrossLowRank, model.StructureStacked
	return c
}
