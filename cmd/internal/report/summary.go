package report

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Number is a float64 that is null in JSON if it is not finite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
	return []byte("null"), nil
}

// Summary is the content of summary.json.
type Summary struct {
	Name        string            `json:"name"` // of the job
	Digest      string            `json:"digest"`
	Model       string            `json:"model"`        // the file next to this one; empty: none was written
	ModelDigest string            `json:"model_digest"` // XXH3 of the tensors of that file, in its order
	ModelStep   int               `json:"model_step"`   // after which the run had this model; 0: there is no file
	Steps       int               `json:"steps"`
	Ranks       int               `json:"ranks"`
	Started     time.Time         `json:"started"`
	Ended       time.Time         `json:"ended"`
	WallS       Number            `json:"wall_s"`       // between them, in seconds
	ResumedFrom *Resumed          `json:"resumed_from"` // null: it started at step 1
	Lineage     string            `json:"lineage"`      // identifies the run; checkpoints record theirs
	Data        any               `json:"data"`         // the identity of the data: samples, sizes and sums of files
	TrainLoss   []Number          `json:"train_loss"`   // one per step
	Eval        []Eval            `json:"eval"`
	SamplesPerS Number            `json:"samples_per_s"`
	StepMS      StepMS            `json:"step_ms"`
	Recoveries  []Recovery        `json:"recoveries"`
	EC          *EC               `json:"ec"`      // null: no erasure coding
	Cache       *Cache            `json:"cache"`   // null: not measured
	Skipped     int64             `json:"skipped"` // malformed samples left out
	Stopped     bool              `json:"stopped"` // ended by a signal before its last step
	Hosts       []string          `json:"hosts"`   // of the processes, each once
	Command     []string          `json:"command"` // the program's name and arguments
	Version     string            `json:"version"` // of the program
	Commit      string            `json:"commit"`  // that it was built from; empty: unknown
	Versions    map[string]string `json:"versions"`
	Error       string            `json:"error,omitempty"` // why the run failed
	// MetricsLost counts the lines of metrics.jsonl, LossesLeftOut the values of train_loss that
	// were left out because the disk was full.
	MetricsLost   int `json:"metrics_lost,omitempty"`
	LossesLeftOut int `json:"losses_left_out,omitempty"`
}

// Resumed is the checkpoint that a run continues from.
type Resumed struct {
	Step  int64  `json:"step"`
	Path  string `json:"path"`
	Topic string `json:"topic,omitempty"` // that the checkpoint was made of; empty: a run saved it
}

// Eval is one evaluation, after step Step.
type Eval struct {
	Step    int    `json:"step"`
	LogLoss Number `json:"logloss"`
	AUC     Number `json:"auc"`
}

// StepMS is the distribution of step times.
type StepMS struct {
	P50 Number `json:"p50"`
	P99 Number `json:"p99"`
}

// Recovery is one loss of ranks. Times are since the loss.
type Recovery struct {
	Ranks         []int  `json:"ranks"`
	Step          int    `json:"step"`
	CommittedStep int    `json:"committed_step"`
	StepsRedone   int    `json:"steps_redone"`
	DetectMS      Number `json:"detect_ms"`
	StartMS       Number `json:"start_ms"`
	JoinMS        Number `json:"join_ms"`
	AgreeMS       Number `json:"agree_ms"`
	RollbackMS    Number `json:"rollback_ms"`
	DenseMS       Number `json:"dense_ms"`
	SurveyMS      Number `json:"survey_ms"`
	ReadyMS       Number `json:"ready_ms"`
	ResumeMS      Number `json:"resume_ms"`
	RegainMS      Number `json:"regain_ms"`
	WholeMS       Number `json:"whole_ms"`
	RowsDecoded   int64  `json:"rows_decoded"`
	RowsOnDemand  int64  `json:"rows_on_demand"`
	BytesRead     int64  `json:"bytes_read"`
	RebuildSteps  int64  `json:"rebuild_steps"`
	RebuildRate   Number `json:"rebuild_bytes_per_s"`
}

// EC is the cost of erasure coding.
type EC struct {
	OverheadBytes int64  `json:"overhead_bytes"` // sent for parity
	MemoryBytes   int64  `json:"memory_bytes"`   // held as parity
	JournalBytes  int64  `json:"journal_bytes"`  // held as pre-images
	StagedBytes   int64  `json:"staged_bytes"`   // held as deltas
	SnapshotBytes int64  `json:"snapshot_bytes"` // held as copies of the dense part
	WaitMS        Number `json:"wait_ms"`        // for commits, in the whole run
}

// Cache is the traffic of rows between ranks, the mean per step: on the critical path (the step
// waits for it) and off it.
type Cache struct {
	CriticalRows  Number `json:"critical_rows_per_step"`
	CriticalBytes Number `json:"critical_bytes_per_step"`
	DelayedRows   Number `json:"delayed_rows_per_step"`
	DelayedBytes  Number `json:"delayed_bytes_per_step"`
}

// toJSON returns the summary as indented JSON. Absent lists are empty, not null.
func (s Summary) toJSON() ([]byte, error) {
	if s.TrainLoss == nil {
		s.TrainLoss = []Number{}
	}
	if s.Eval == nil {
		s.Eval = []Eval{}
	}
	if s.Recoveries == nil {
		s.Recoveries = []Recovery{}
	}
	if s.Hosts == nil {
		s.Hosts = []string{}
	}
	if s.Command == nil {
		s.Command = []string{}
	}
	if s.Versions == nil {
		s.Versions = map[string]string{}
	}
	out, err := json.MarshalIndent(s, "", "  ")
	return append(out, '\n'), err
}

// Metrics is one line of metrics.jsonl: the figures of the steps since the line before.
type Metrics struct {
	Step        int               `json:"step"`
	Loss        Number            `json:"loss"` // mean of the steps since the line before
	SamplesPerS Number            `json:"samples_per_s"`
	StepMS      Number            `json:"step_ms"`            // mean
	StageMS     map[string]Number `json:"stage_ms,omitempty"` // mean per stage of a step
	UnixMS      int64             `json:"unix_ms"`            // when the line was written
	GPU         *GPU              `json:"gpu,omitempty"`      // process 0's, where it uses one
	Rebuild     *Rebuild          `json:"rebuild,omitempty"`  // while one is under way
}

// Rebuild is the progress of a rebuild of lost rows, of all ranks.
type Rebuild struct {
	LeftBytes  int64  `json:"left_bytes"`
	BytesPerS  Number `json:"bytes_per_s"`
	EndsAfterS Number `json:"ends_after_s"` // at this rate; 0: unknown
}

// GPU is the load of a GPU by all processes, according to NVML.
type GPU struct {
	MemoryBytes int64  `json:"memory_bytes"` // in use
	Utilization Number `json:"utilization"`  // the fraction of time in which kernels ran; null: unknown
}
