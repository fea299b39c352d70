package plan

// Forecast is the prediction of a job on a number of ranks.
type Forecast struct {
	Ranks     int `json:"ranks"`
	Machines  int `json:"machines"`
	Processes int `json:"processes_per_machine"`
	Batch     int `json:"global_batch"`
	Slice     int `json:"largest_slice"`

	// Counted is the steps that were counted, from First. Sample is 1, or the share of trainers that
	// were read is 1/Sample.
	First   int64   `json:"first_step"`
	Counted int     `json:"counted_steps"`
	Epochs  float64 `json:"counted_epochs"`
	Sample  int     `json:"sample"`

	// Mean and Largest are the counts of the mean rank, and of the rank that moves the most bytes.
	Mean    RankMean `json:"mean"`
	Largest RankMean `json:"largest"`
	// Memory is that of the process of the mean rank, MostMemory that of the one with the most.
	Memory     Memory `json:"memory"`
	MostMemory Memory `json:"most_memory"`

	// Times are nil if nothing was measured.
	Times   *Times   `json:"times,omitempty"`
	Work    *Work    `json:"work,omitempty"`
	Rebuild *Rebuild `json:"rebuild,omitempty"`
	Walls   Walls    `json:"walls"`
}

// Rebuild is the loss of one rank.
type Rebuild struct {
	Bytes    float64 `json:"bytes"`     // of its rows and parities
	Read     float64 `json:"read"`      // bytes that it receives from its group
	Ranks    int     `json:"ranks"`     // that send them
	OverLink float64 `json:"over_link"` // seconds that these bytes take on its machine's link; 0: no link was given
	Steps    int     `json:"steps"`     // the most that are trained again
	Replay   float64 `json:"replay"`    // seconds of these
	Silence  float64 `json:"silence"`   // seconds until a silent process counts as lost
}

// Walls are figures that grow with the number of ranks.
type Walls struct {
	Connections int     `json:"connections"`  // of a process
	Status      float64 `json:"status_bytes"` // received by a rank in a step
	Messages    float64 `json:"messages"`     // sent by a rank in a step
	Lists       float64 `json:"lists"`        // of these, messages of the counts of rows, 4 bytes for each pair of ranks
	Dense       float64 `json:"dense"`        // of these, the all-reduce
	RowsPerPair float64 `json:"rows_per_pair"`
	Heartbeats  float64 `json:"heartbeats"` // messages of a process in a second
}

// walls of a job whose processes send heartbeats in an interval.
func walls(j *Job, m *RankMean, heartbeat float64) (w Walls) {
	w.Connections = j.Ranks - 1
	w.Status = m.Received[Status].Bytes
	for k := range Classes {
		w.Messages += m.Sent[k].Messages
	}
	w.Lists, w.Dense = float64(countsOf(j).Messages), m.Sent[Dense].Messages
	w.RowsPerPair = m.Rows / float64(j.Place.Owners)
	if heartbeat > 0 {
		w.Heartbeats = float64(j.Ranks-1) / heartbeat
	}
	return w
}

// LossOf is the loss of one rank of a coded job, given the memory of its process, the time of a step and the limit
// of silence.
func (j *Job) LossOf(m *Memory, h *Host, step, silence float64) *Rebuild {
	if !j.Coded {
		return nil
	}
	g := j.Layout.GroupOf(0)
	r := &Rebuild{Bytes: m[RowWeights] + m[RowState] + m[Parities], Ranks: g.Size - 1, Steps: 2*j.CommitEvery + 1, Silence: silence}
	r.Read = float64(g.Data()) * r.Bytes
	if h.Far.BytesPerS > 0 && h.Remote > 0 {
		r.OverLink = r.Read / h.Far.BytesPerS
	}
	r.Replay = float64(r.Steps) * step
	return r
}

// Summarize sets the counts of a forecast.
func (f *Forecast) Summarize(j *Job, c *Counter, heartbeat float64) (largest int) {
	means := c.Means()
	f.Counted, f.Mean = c.Steps, MeanOf(means)
	if j.CommitEvery > 0 {
		f.Epochs = float64(c.EpochSteps) / float64(j.CommitEvery)
	}
	if f.Sample == 1 {
		largest = Largest(means, (*RankMean).Moved)
		f.Largest = means[largest]
	} else {
		f.Largest = f.Mean
	}
	f.Walls = walls(j, &f.Mean, heartbeat)
	return largest
}
