package train

import (
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train/resume"
)

// Observer receives the events of a job. Its methods must return soon.
type Observer interface {
	// Started is called before the first step, when all ranks have read and allocated
	// everything. Its error ends the job.
	Started(Info) error
	Step(StepInfo)
	Evaluated(Eval)
	// Committed is called when the updates up to a step are protected, and for the commit that
	// training begins with or goes back to. digest is that of the whole model after the step; it
	// is empty without job.digests.
	Committed(step int64, digest string)
	// Checkpointed is called after each attempt to save. Err is nil if it succeeded.
	Checkpointed(step int64, path string, err error)
	// SkippedCheckpoint is called for each checkpoint that the run cannot resume from.
	SkippedCheckpoint(path string, err error)
	// Recovered is called when everything that was lost is rebuilt.
	Recovered(Recovery)
	// Warned is called if the job deviates from its config, or is likely to fail.
	Warned(what string)
}

// Info describes a job about to start.
type Info struct {
	Device         string
	GPU            [16]byte // its UUID; zeros: there is none
	Ranks, Threads int
	DenseParams    int
	Rows           int64
	Began, Steps   int64 // the step it resumes after, 0 at the start; the last, 0 if Endless
	Endless        bool  // the last step is where the samples of a topic end
	BytesPerRow    int
	Run            lineage.Run
	Recipe         *data.Recipe   // of the data
	Inputs         lineage.Inputs // identities of its files
	Origin         *resume.Origin // nil unless Options.Resume is set
	Recoveries     []Recovery     // earlier ones of the run
}

// StepInfo describes a finished step.
type StepInfo struct {
	Step, Last int64
	Loss       float64   // mean over the global batch, before the update
	Losses     []float64 // of steps 1 to Step, in the same way; valid until Observer.Step returns
	Samples    int
	Took       time.Duration
	Stages     [probe.Stages]time.Duration // on rank 0
	Redundancy Redundancy
	Rebuild    Rebuild
	// Durable is the last step whose updates survive the loss of all processes, 0 without store.path.
	Durable int64
	// Streamed is the last step that the topic of stream.to has of all ranks, 0 without stream.to.
	Streamed int64
}

// Eval is the result of one evaluation. AUC is NaN if all samples have the same label.
type Eval struct {
	Step         int64
	Logloss, AUC float64
}

// Result is the result of a job, also of one that failed.
type Result struct {
	Began     int64 // the step of the checkpoint that it resumed from; 0: none
	Steps     int64 // the last step, counted from the start of the run
	TrainLoss []float64
	Eval      []Eval
	Digest    string // empty if the job failed before its end
	Stopped   bool   // Stop ended it before its last step
	// Durable is the last step whose updates survive the loss of all processes, and NotDurable is how many steps follow it. Both are 0
	// without store.path.
	Durable, NotDurable int64
	// EndedEarly is set if train.patience ended the job before its last step.
	EndedEarly bool
	// InputEnded is set if the samples of a topic ended before the last step of train.iterations.
	InputEnded bool
	// ModelDigest is the XXH3 of the tensors of the saved model, empty if none is saved. The
	// model is that of the evaluation ModelEval, or of the last step if that is nil.
	ModelDigest string
	ModelEval   *Eval
	Skipped     int64      // malformed samples left out
	Moved       lrpp.Moved // between ranks, by all of them, in training
	// Protection is the cost of commits on all ranks.
	Protection Protection
	// Recoveries are the losses that the run survived.
	Recoveries []Recovery
}

// Protection is the cost of a job's commits: bytes sent, memory at the end, and the longest
// wait of a rank.
type Protection struct {
	SentBytes, ParityBytes, JournalBytes, StagedBytes, SnapshotBytes int64
	// Waited is the longest of all ranks. Sealed, the time of taking sets of rows to sinks, and Snapshots, that of copies of the dense
	// part, are the sums of all.
	Waited, Sealed, Snapshots time.Duration
}

// Recovery describes how a run recovered from the loss of ranks. Times are counted from the
// loss, or from the moment when this process noticed it if the time of the loss is unknown.
// A time is 0 where the next loss happened first.
type Recovery struct {
	Ranks         []int   `json:"ranks"`
	Step          int64   `json:"step"` // that the loss hit
	CommittedStep int64   `json:"committed_step"`
	StepsRedone   int64   `json:"steps_redone"`
	DetectMS      float64 `json:"detect_ms"`   // until a survivor noticed
	StartMS       float64 `json:"start_ms"`    // until new processes listened, and the next world was formed
	JoinMS        float64 `json:"join_ms"`     // until the next world was joined
	AgreeMS       float64 `json:"agree_ms"`    // until all ranks knew the commit to roll back to
	RollbackMS    float64 `json:"rollback_ms"` // until the rows were those of the commit
	DenseMS       float64 `json:"dense_ms"`    // until the dense part was
	SurveyMS      float64 `json:"survey_ms"`   // until it was known what is to be rebuilt
	ReadyMS       float64 `json:"ready_ms"`    // until all ranks began to train
	ResumeMS      float64 `json:"resume_ms"`   // until the end of the first step after the rollback
	RegainMS      float64 `json:"regain_ms"`   // until the end of the step that the loss hit
	WholeMS       float64 `json:"whole_ms"`    // until the last row was rebuilt
	RowsDecoded   int64   `json:"rows_decoded"`
	RowsOnDemand  int64   `json:"rows_on_demand"` // of those, rows that a step was about to read
	BytesRead     int64   `json:"bytes_read"`
	RebuildSteps  int64   `json:"rebuild_steps"`       // that ended while rows were rebuilt beside training
	RebuildRate   float64 `json:"rebuild_bytes_per_s"` // rebuilt by each lost rank, on average until the last row was
}

// times are all the times that a survivor records.
func (x *Recovery) times() []*float64 {
	return []*float64{&x.DetectMS, &x.StartMS, &x.JoinMS, &x.AgreeMS, &x.RollbackMS, &x.DenseMS, &x.SurveyMS, &x.ReadyMS, &x.ResumeMS,
		&x.RegainMS, &x.WholeMS}
}

// Rebuild is the progress of a rebuild, of all ranks. It is zero if none is under way.
type Rebuild struct {
	LeftBytes      int64 // of rows and parities that are lost and not rebuilt yet
	BytesPerSecond float64
}

// Ends is the time until the rebuild ends at its present rate, 0 if that is unknown.
func (x Rebuild) Ends() time.Duration {
	if x.BytesPerSecond <= 0 {
		return 0
	}
	return time.Duration(float64(time.Second) * min(float64(x.LeftBytes)/x.BytesPerSecond, 1e9))
}

// Redundancy is how many more losses the coded rows survive. Without a code it is zero.
type Redundancy struct {
	Groups     int // of ranks that are coded together
	NoSpare    int // of these: groups that survive no further loss
	Survivable int // losses of ranks that every group survives
	Rebuilding int // ranks that have not rebuilt all that they lost
}
