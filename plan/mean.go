package plan

import "encoding/json"

// Rate is messages and bytes per step.
type Rate struct {
	Messages float64 `json:"messages"`
	Bytes    float64 `json:"bytes"`
}

// Rates are those of each class.
type Rates [Classes]Rate

// MarshalJSON writes the rates by the names of the classes.
func (r Rates) MarshalJSON() ([]byte, error) {
	named := map[string]Rate{}
	for k := range Classes {
		named[k.String()] = r[k]
	}
	return json.Marshal(named)
}

// RankMean is the counts of a rank per step, and of changed rows and deltas per epoch.
type RankMean struct {
	Sent       Rates   `json:"sent"`
	Received   Rates   `json:"received"`
	Lookups    float64 `json:"lookups"`
	Rows       float64 `json:"rows"`
	Served     float64 `json:"served"`
	ServedLate float64 `json:"served_late"`
	Summed     float64 `json:"summed"`
	SummedNow  float64 `json:"summed_now"`
	Updated    float64 `json:"updated"`
	UpdatedNow float64 `json:"updated_now"`
	Changed    float64 `json:"changed"`
	Folded     float64 `json:"folded"`
}

// Means returns the means over the counted steps, of each rank. An epoch that was counted in part
// counts as one with rows in proportion, which is the most that it can have.
func (c *Counter) Means() []RankMean {
	means := make([]RankMean, len(c.Ranks))
	if c.Steps == 0 {
		return means
	}
	n := float64(c.Steps)
	epochs := float64(c.EpochSteps) / float64(max(1, c.job.CommitEvery)) // full ones
	for i := range c.Ranks {
		r, m := &c.Ranks[i], &means[i]
		for k := range Classes {
			per := n
			if k == Deltas && epochs > 0 {
				per = epochs * float64(c.job.CommitEvery)
			}
			m.Sent[k] = rateOf(r.Sent[k], per)
			m.Received[k] = rateOf(r.Received[k], per)
		}
		m.Lookups, m.Rows = float64(r.Lookups)/n, float64(r.Rows)/n
		m.Served, m.ServedLate, m.Summed = float64(r.Served)/n, float64(r.ServedLate)/n, float64(r.Summed)/n
		m.SummedNow, m.Updated, m.UpdatedNow = float64(r.SummedNow)/n, float64(r.Updated)/n, float64(r.UpdatedNow)/n
		if epochs > 0 {
			m.Changed, m.Folded = float64(r.Changed)/epochs, float64(r.Folded)/epochs
		}
	}
	return means
}

func rateOf(t Traffic, n float64) Rate { return Rate{float64(t.Messages) / n, float64(t.Bytes) / n} }

// Largest returns the index of the rank with the most of f.
func Largest(means []RankMean, f func(*RankMean) float64) (rank int) {
	for i := range means {
		if f(&means[i]) > f(&means[rank]) {
			rank = i
		}
	}
	return rank
}

// Moved is the larger of the bytes that a rank sends and receives per step.
func (m *RankMean) Moved() float64 {
	sent, received := 0.0, 0.0
	for k := range Classes {
		sent, received = sent+m.Sent[k].Bytes, received+m.Received[k].Bytes
	}
	return max(sent, received)
}

// MeanOf is the mean of all ranks.
func MeanOf(means []RankMean) (m RankMean) {
	n := float64(len(means))
	for i := range means {
		r := &means[i]
		for k := range Classes {
			addRate(&m.Sent[k], r.Sent[k], n)
			addRate(&m.Received[k], r.Received[k], n)
		}
		for _, f := range []struct {
			to *float64
			x  float64
		}{{&m.Lookups, r.Lookups}, {&m.Rows, r.Rows}, {&m.Served, r.Served}, {&m.ServedLate, r.ServedLate}, {&m.Summed, r.Summed},
			{&m.SummedNow, r.SummedNow}, {&m.Updated, r.Updated}, {&m.UpdatedNow, r.UpdatedNow}, {&m.Changed, r.Changed}, {&m.Folded, r.Folded}} {
			*f.to += f.x / n
		}
	}
	return m
}

func addRate(to *Rate, r Rate, n float64) {
	to.Messages, to.Bytes = to.Messages+r.Messages/n, to.Bytes+r.Bytes/n
}
