package plan

import (
	"math"

	"github.com/ecrec/ecrec/collectives"
)

// Work is the seconds that one rank needs for each part of a step, alone on its threads.
type Work struct {
	// Beside training, for each step: reading a slice, planning it, merging the lists of all ranks.
	Read  float64 `json:"read"`
	Plan  float64 `json:"plan"`
	Merge float64 `json:"merge"`
	// Upload, Forward with the loss, and Backward are for a slice. Update is for the dense parameters.
	Upload   float64 `json:"upload"`
	Forward  float64 `json:"forward"`
	Backward float64 `json:"backward"`
	Update   float64 `json:"update"`
	// Sum adds up the gradients of each row of the slice. Serve copies the rows that the owner sends,
	// Apply updates its rows.
	Sum   float64 `json:"sum"`
	Serve float64 `json:"serve"`
	Apply float64 `json:"apply"`
	// Reduce adds up the rank's segment of the dense gradients.
	Reduce float64 `json:"reduce"`
	// For each epoch: pre-images and deltas of the changed rows, folding of received deltas, copies of the dense part.
	PreImages float64 `json:"pre_images"`
	Seal      float64 `json:"seal"`
	Fold      float64 `json:"fold"`
	Snapshot  float64 `json:"snapshot"`
}

// AddShare adds a share of another rank's work.
func (w *Work) AddShare(x *Work, share float64) {
	for _, f := range []struct {
		to *float64
		by float64
	}{{&w.Read, x.Read}, {&w.Plan, x.Plan}, {&w.Merge, x.Merge}, {&w.Upload, x.Upload}, {&w.Forward, x.Forward}, {&w.Backward, x.Backward},
		{&w.Update, x.Update}, {&w.Sum, x.Sum}, {&w.Serve, x.Serve}, {&w.Apply, x.Apply}, {&w.Reduce, x.Reduce},
		{&w.PreImages, x.PreImages}, {&w.Seal, x.Seal}, {&w.Fold, x.Fold}, {&w.Snapshot, x.Snapshot}} {
		*f.to += share * f.by
	}
}

// Wire is the cost of messages between two processes, at each end, in seconds of a core. An exchange is the messages that a rank
// sends and receives at a time, before it waits for all of them.
type Wire struct {
	PerExchange         float64 // the wait
	PerMessage, PerByte float64 // for a message that is sent and one that is received
	Latency             float64 // seconds on the wire
	BytesPerS           float64 // of the link of a machine, in each direction; 0: there is no limit
}

// Host is where the processes run.
type Host struct {
	Processes int     // of a machine
	Machines  int     // of the job
	Cores     float64 // of a machine
	Threads   int     // that compute in each process
	Ranks     int     // of the job
	Here, Far Wire    // between processes of a machine, and of two
	Remote    float64 // the share of a rank's messages that leave its machine
}

// Times are the parts of a step, in seconds.
type Times struct {
	// Compute is the forward and backward pass. Rows is sums, copies and updates of rows between steps.
	Compute float64 `json:"compute"`
	Rows    float64 `json:"rows"`
	Update  float64 `json:"update"`
	// The part of each exchange that training waits for, and the part that compute hides.
	LateRows     float64 `json:"late_rows"`
	Gradients    float64 `json:"gradients"`
	Delayed      float64 `json:"delayed"`
	Dense        float64 `json:"dense"`
	Status       float64 `json:"status"`
	HidesRows    float64 `json:"hides_rows"`
	HidesGrads   float64 `json:"hides_grads"`
	HidesDelayed float64 `json:"hides_delayed"`
	HidesDense   float64 `json:"hides_dense"`
	HidesStatus  float64 `json:"hides_status"`
	// Protection is the part of commits that training waits for. Behind is its work in the background.
	Protection float64 `json:"protection"`
	Behind     float64 `json:"behind"`
	// Path is the sum of the parts that follow each other in a step. Cores is the work of all threads of a
	// machine over its cores, and Link the bytes of all messages over the link. Step is the largest.
	Path  float64 `json:"path"`
	Cores float64 `json:"cores"`
	Link  float64 `json:"link"`
	Step  float64 `json:"step"`
}

// Step predicts a step of a rank with the given counts.
func (h *Host) Step(j *Job, r *RankMean, w *Work) (t Times) {
	part := func(some, all float64) float64 { return some / math.Max(all, 1) }
	late, now := part(r.ServedLate, r.Served), part(r.SummedNow, r.Summed)
	every := float64(max(1, j.CommitEvery))

	t.Compute = w.Upload + w.Forward + w.Backward
	t.Rows = w.Sum + now*w.Apply + late*w.Serve
	t.Update = w.Update
	rows, grads := h.passTime(r, LateRows), h.passTime(r, Gradients)
	delayed := h.passTime(r, EarlyRows) + h.passTime(r, LaterGrads) + (1-now)*w.Apply + (1-late)*w.Serve
	dense, status := h.passTime(r, Dense)+w.Reduce, h.passTime(r, Status)
	if _, steps := collectives.AllGatherSent(j.Ranks, j.StatusBytes); steps > 1 {
		status += float64(steps-1) * h.latency(r, Status)
	}
	if j.Trainers > 1 {
		dense += h.latency(r, Dense) // parts, and then sums
	}
	copied := 0.0
	if j.OneHost && j.Trainers > 1 { // the sums of the others are copied from their memory
		copied = h.Here.PerByte * 4 * float64(j.denseFloats()) * float64(j.Trainers-1) / float64(j.Trainers)
		dense += copied
	}
	rest := j.denseRest(dense, w.Backward)
	t.Gradients, t.HidesGrads = hide(grads+math.Min(grads, rest), (1-now)*w.Sum) // the all-reduce has half of the link meanwhile
	push := w.Sum + t.Gradients + now*w.Apply + late*w.Serve                     // between backward and the end of the all-reduce
	t.Dense = math.Max(0, rest+math.Min(grads, rest)-push)
	t.HidesDense = dense - math.Min(t.Dense, dense)
	t.Delayed, t.HidesDelayed = hide(delayed, w.Forward+w.Backward+now*w.Sum)
	t.Status, t.HidesStatus = hide(status, w.Backward)
	t.LateRows, t.HidesRows = hide(rows, t.Dense+w.Update)
	if j.Commits {
		t.Protection = (w.PreImages + w.Seal + w.Fold + w.Snapshot) / every
		t.Behind = h.passTime(r, Deltas)
	}
	t.Path = t.Compute + t.Rows + t.Update + t.LateRows + t.Gradients + t.Delayed + t.Dense + t.Status + t.Protection

	threads := float64(max(1, h.Threads))
	work := threads*(t.Compute+w.Sum+w.Apply+w.Serve+t.Update) + w.Read + w.Plan + w.Merge + w.Reduce + copied + t.Protection
	for k := range Classes {
		work += h.cost(r, k)
		t.Link += h.wireTime(r, k)
	}
	t.Cores = work * float64(h.Processes) / h.Cores
	t.Step = math.Max(t.Link, math.Max(t.Path, t.Cores))
	return t
}

// denseFloats is the length of the dense gradient.
func (j *Job) denseFloats() (n int) {
	for _, b := range j.Buckets {
		n += b
	}
	return n
}

// denseRest is how much of the time of the all-reduce is left when the backward pass is over. The buckets are reduced one after another,
// each from the moment on when the pass has its gradients.
func (j *Job) denseRest(dense, backward float64) float64 {
	at, before, all := 0.0, 0, float64(max(1, j.denseFloats()))
	for _, b := range j.Buckets {
		before += b
		at = math.Max(at, backward*float64(before)/all) + dense*float64(b)/all
	}
	return math.Max(0, at-backward)
}

// hide returns how much of an exchange is waited for, and how much the work beside it hides.
func hide(exchange, beside float64) (waited, hidden float64) {
	hidden = math.Min(exchange, math.Max(0, beside))
	return exchange - hidden, hidden
}

// cost is the seconds of a core for the messages of a class.
func (h *Host) cost(r *RankMean, k Class) float64 {
	messages, bytes := math.Max(r.Sent[k].Messages, r.Received[k].Messages), math.Max(r.Sent[k].Bytes, r.Received[k].Bytes)
	exchanges := math.Min(messages, math.Max(1, messages/math.Max(1, float64(h.Ranks-1))))
	return (1-h.Remote)*h.Here.cost(exchanges, messages, bytes) + h.Remote*h.Far.cost(exchanges, messages, bytes)
}

func (w *Wire) cost(exchanges, messages, bytes float64) float64 {
	return exchanges*w.PerExchange + messages*w.PerMessage + bytes*w.PerByte
}

// passTime is how long an exchange of a class takes in which all messages are posted at once.
func (h *Host) passTime(r *RankMean, k Class) float64 {
	if r.Sent[k].Messages+r.Received[k].Messages == 0 {
		return 0
	}
	return math.Max(h.cost(r, k), h.wireTime(r, k)) + h.latency(r, k)
}

// wireTime is how long the bytes of a class occupy the link of a machine, which its processes share.
func (h *Host) wireTime(r *RankMean, k Class) float64 {
	if h.Far.BytesPerS == 0 {
		return 0
	}
	return h.Remote * math.Max(r.Sent[k].Bytes, r.Received[k].Bytes) * float64(h.Processes) / h.Far.BytesPerS
}

// latency is that of one message of a class on the wire.
func (h *Host) latency(r *RankMean, k Class) float64 {
	if h.Remote > 0 && r.Sent[k].Messages+r.Received[k].Messages > 0 {
		return h.Far.Latency
	}
	return 0
}
