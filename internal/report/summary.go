package report

import (
	"encoding/json"
	"math"
	"strconv"
)

// Number is a float64 that JSON shows as null when it is not finite.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
	return []byte("null"), nil
}

// Summary is summary.json: what a run did.
type Summary struct {
	Digest      string            `json:"digest"`
	Steps       int               `json:"steps"`
	Ranks       int               `json:"ranks"`
	TrainLoss   []Number          `json:"train_loss"` // one per step
	Eval        []Eval            `json:"eval"`
	SamplesPerS Number            `json:"samples_per_s"`
	StepMS      StepMS            `json:"step_ms"`
	Recoveries  []Recovery        `json:"recoveries"`
	EC          *EC               `json:"ec"`      // null: rows are not coded
	Cache       *Cache            `json:"cache"`   // null: not measured
	Skipped     int64             `json:"skipped"` // malformed samples left out
	Stopped     bool              `json:"stopped"` // ended by a signal, before its last step
	Versions    map[string]string `json:"versions"`
	Error       string            `json:"error,omitempty"` // why the run failed
}

// Eval is one evaluation, after step Step.
type Eval struct {
	Step    int    `json:"step"`
	LogLoss Number `json:"logloss"`
	AUC     Number `json:"auc"`
}

// StepMS is how long steps took.
type StepMS struct {
	P50 Number `json:"p50"`
	P99 Number `json:"p99"`
}

// Recovery is one loss of ranks; times count from the loss.
type Recovery struct {
	Ranks         []int  `json:"ranks"`
	Step          int    `json:"step"`
	CommittedStep int    `json:"committed_step"`
	StepsRedone   int    `json:"steps_redone"`
	DetectMS      Number `json:"detect_ms"`
	JoinMS        Number `json:"join_ms"`
	AgreeMS       Number `json:"agree_ms"`
	RollbackMS    Number `json:"rollback_ms"`
	DenseMS       Number `json:"dense_ms"`
	SurveyMS      Number `json:"survey_ms"`
	ResumeMS      Number `json:"resume_ms"`
	RegainMS      Number `json:"regain_ms"`
	WholeMS       Number `json:"whole_ms"`
	RowsDecoded   int64  `json:"rows_decoded"`
	RowsOnDemand  int64  `json:"rows_on_demand"`
	BytesRead     int64  `json:"bytes_read"`
}

// EC is what erasure coding cost.
type EC struct {
	OverheadBytes int64  `json:"overhead_bytes"` // sent for parity
	MemoryBytes   int64  `json:"memory_bytes"`   // held as parity
	JournalBytes  int64  `json:"journal_bytes"`  // held as pre-images
	StagedBytes   int64  `json:"staged_bytes"`   // held as deltas
	SnapshotBytes int64  `json:"snapshot_bytes"` // held as copies of the dense part
	WaitMS        Number `json:"wait_ms"`        // for commits, in the whole run
}

// Cache is what moved between ranks per step, the mean over the run: on the
// critical path (the step waited for it) and off it.
type Cache struct {
	CriticalRows  Number `json:"critical_rows_per_step"`
	CriticalBytes Number `json:"critical_bytes_per_step"`
	DelayedRows   Number `json:"delayed_rows_per_step"`
	DelayedBytes  Number `json:"delayed_bytes_per_step"`
}

// encode is the summary as indented JSON with a list where there is nothing.
func (s Summary) encode() ([]byte, error) {
	if s.TrainLoss == nil {
		s.TrainLoss = []Number{}
	}
	if s.Eval == nil {
		s.Eval = []Eval{}
	}
	if s.Recoveries == nil {
		s.Recoveries = []Recovery{}
	}
	if s.Versions == nil {
		s.Versions = map[string]string{}
	}
	out, err := json.MarshalIndent(s, "", "  ")
	return append(out, '\n'), err
}

// Metrics is one line of metrics.jsonl: the figures of the steps since the line
// before it.
type Metrics struct {
	Step        int               `json:"step"`
	Loss        Number            `json:"loss"` // of step Step
	SamplesPerS Number            `json:"samples_per_s"`
	StepMS      Number            `json:"step_ms"`            // mean
	StageMS     map[string]Number `json:"stage_ms,omitempty"` // mean per stage of a step
	UnixMS      int64             `json:"unix_ms"`            // when the line was written
	GPU         *GPU              `json:"gpu,omitempty"`      // process 0's, where it uses one
}

// GPU is how a GPU does, as NVML tells: with all processes that use it.
type GPU struct {
	MemoryBytes int64  `json:"memory_bytes"` // in use
	Utilization Number `json:"utilization"`  // the part of time in which kernels ran; null: not known
}
