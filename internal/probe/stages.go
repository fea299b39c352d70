package probe

// Stage is a part of a step.
type Stage int

// The stages of a step in their order, as one rank measures them, followed by the
// stages that run beside them.
const (
	StageWait     Stage = iota // for a planned batch
	StageFetch                 // rows from their owners
	StageForward               // including the loss
	StageBackward              // all-reduce under it
	StagePush                  // row gradients to their owners, and their update
	StageReduce                // the rest of the all-reduce
	StageUpdate                // dense parameters
	StageRead                  // beside: reads a later batch; includes the wait for the reader
	StagePlan                  // beside: plans a later batch, together with all other ranks
	StageDelayed               // beside: moves rows and gradients that may move early or late
	Stages
)

var stageNames = [Stages]string{"wait", "fetch", "forward", "backward", "push", "reduce", "update", "read", "plan", "delayed"}

func (s Stage) String() string { return stageNames[s] }
