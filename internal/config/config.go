package config

import "math"

// Config is a whole run config. Field names follow the TOML keys.
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

// Job is what is run where.
type Job struct {
	Name    string `toml:"name"` // default: the config file's name without its extension
	Seed    uint64 `toml:"seed"`
	Out     string `toml:"out"`   // default: runs/<name>
	Ranks   int    `toml:"ranks"` // default: the number of processes
	Threads int    `toml:"threads"`
	Device  string `toml:"device"`
	// SaveModel writes the final model to model.safetensors in Out.
	SaveModel bool `toml:"save_model"`
}

// Data names the input.
type Data struct {
	Format  string   `toml:"format"`
	Train   []string `toml:"train"`
	Eval    []string `toml:"eval"`
	Shuffle string   `toml:"shuffle"`
	OnError string   `toml:"on_error"`
	CSV     CSV      `toml:"csv"`
}

// CSV names the columns of a delimited file with a header.
type CSV struct {
	Label       string   `toml:"label"`
	Dense       []string `toml:"dense"`
	Categorical []string `toml:"categorical"`
	Delimiter   string   `toml:"delimiter"`
}

// criteoDense and criteoTables are the columns of every Criteo format.
const (
	criteoDense  = 13
	criteoTables = 26
)

// DenseCount is the number of integer columns of a sample.
func (d Data) DenseCount() int {
	if d.columnsNamed() {
		return len(d.CSV.Dense)
	}
	return criteoDense
}

// columnsNamed reports whether [data.csv] says what a sample holds: always for
// csv, and for record files that were converted from csv.
func (d Data) columnsNamed() bool {
	return d.Format == "csv" || d.Format == "record" && len(d.CSV.Categorical) > 0
}

// Model is the model's shape. A layer list gives output widths; its input width
// follows from what is below it.
type Model struct {
	Kind         string  `toml:"kind"`
	EmbeddingDim int     `toml:"embedding_dim"`
	Tables       Tables  `toml:"tables"`
	BottomMLP    []int   `toml:"bottom_mlp"`
	TopMLP       []int   `toml:"top_mlp"`
	CrossLayers  int     `toml:"cross_layers"` // dcn
	CrossRank    int     `toml:"cross_rank"`   // dcn
	Dropout      float64 `toml:"dropout"`      // deepfm
	InitFrom     string  `toml:"init_from"`
}

// TableRows is the number of rows of each embedding table.
func (m Model) TableRows() []int64 { return m.Tables.Rows }

// Kernels chooses how numbers are computed.
type Kernels struct {
	BLAS string `toml:"blas"`
}

// Train is how long and in what steps.
type Train struct {
	GlobalBatch int `toml:"global_batch"`
	Iterations  int `toml:"iterations"` // 0: epochs says how long
	Epochs      int `toml:"epochs"`     // 0: iterations says how long
	EvalEvery   int `toml:"eval_every"` // steps; 0: at the end only
	LogEvery    int `toml:"log_every"`  // steps
}

// Optimizers are the update rules of the dense parameters and of the rows.
type Optimizers struct {
	Dense  Optimizer `toml:"dense"`
	Sparse Optimizer `toml:"sparse"`
}

// Optimizer is one update rule and its learning-rate schedule, the reference
// DLRM's: linear warm-up over WarmupSteps, hold, and from DecayStart quadratic
// decay to zero over DecaySteps.
type Optimizer struct {
	Kind        string  `toml:"kind"`
	LR          float64 `toml:"lr"`
	Momentum    float64 `toml:"momentum"`
	Eps         float64 `toml:"eps"` // default: 1e-8 for adam, else 1e-10
	Betas       Betas   `toml:"betas"`
	WarmupSteps int     `toml:"warmup_steps"`
	DecayStart  int     `toml:"decay_start"`
	DecaySteps  int     `toml:"decay_steps"`
}

// Collectives is how ranks exchange.
type Collectives struct {
	Transport     string `toml:"transport"`
	Deterministic bool   `toml:"deterministic"`
}

// Oracle is how far ahead row ids are known.
type Oracle struct {
	Lookahead Lookahead `toml:"lookahead"`
}

// Cache is how rows reach the ranks that use them.
type Cache struct {
	Mode        string `toml:"mode"`
	MaxBytes    Size   `toml:"max_bytes"` // per rank
	DelayedSync bool   `toml:"delayed_sync"`
}

// Ranks gives ranks different parts; 0: every rank has every part.
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
}

// Elastic is how losses of processes are noticed and bounded.
type Elastic struct {
	Spares      int      `toml:"spares"`
	MaxRestarts int      `toml:"max_restarts"`
	Heartbeat   Duration `toml:"heartbeat"`
}

// Store is where rows live.
type Store struct {
	Tier      string `toml:"tier"`
	Path      string `toml:"path"`
	DRAMBytes Size   `toml:"dram_bytes"` // 0: no limit
}

// Checkpoint is when and where the model is saved.
type Checkpoint struct {
	Dir   string   `toml:"dir"` // empty: no checkpoints
	Every Interval `toml:"every"`
	Kind  string   `toml:"kind"`
	Keep  int      `toml:"keep"` // 0: all
}

// Stream is where updated rows are sent.
type Stream struct {
	To string `toml:"to"` // empty: nowhere
}

// Metrics is where figures are served.
type Metrics struct {
	Listen string `toml:"listen"` // empty: nowhere
}

// Default is the config of an empty file. Eps is NaN until the kind is known.
func Default() *Config {
	rule := func(kind string, lr float64) Optimizer {
		return Optimizer{Kind: kind, LR: lr, Momentum: 0.9, Eps: math.NaN(), Betas: Betas{0.9, 0.999}}
	}
	return &Config{
		Job: Job{Seed: 42, Ranks: 1, Device: "auto", SaveModel: true},
		Data: Data{Format: "criteo-bin", Train: []string{}, Eval: []string{}, Shuffle: "none", OnError: "fail",
			CSV: CSV{Label: "label", Dense: []string{}, Categorical: []string{}, Delimiter: ","}},
		Model: Model{Kind: "dlrm", EmbeddingDim: 16,
			BottomMLP: []int{512, 256, 16}, TopMLP: []int{512, 256, 1}},
		Kernels:     Kernels{BLAS: "exact"},
		Train:       Train{GlobalBatch: 16384, LogEvery: 10},
		Optimizer:   Optimizers{Dense: rule("sgd", 0.1), Sparse: rule("rowwise_adagrad", 0.02)},
		Collectives: Collectives{Transport: "auto", Deterministic: true},
		Oracle:      Oracle{Lookahead: Lookahead{Batches: 200}},
		Cache:       Cache{Mode: "auto", MaxBytes: 4 << 30, DelayedSync: true},
		EC:          EC{Code: "none", K: 4, R: 1, CommitEvery: 10},
		Elastic:     Elastic{MaxRestarts: 100, Heartbeat: 200e6},
		Store:       Store{Tier: "dram"},
		Checkpoint:  Checkpoint{Kind: "full"},
	}
}
