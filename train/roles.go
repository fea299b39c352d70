package train

import "github.com/ecrec/ecrec/config"

// roles are the parts of the ranks: trainers have the first ids, then servers, which own
// rows, then readers. Without [ranks] in the config, every rank except the readers trains
// and owns rows.
type roles struct {
	trainers    int
	first, rows int // ranks first to first+rows-1 own rows
	readers     int
}

func rolesOf(c *config.Config) roles {
	if p := c.Ranks; p.Trainers > 0 {
		return roles{trainers: p.Trainers, first: p.Trainers, rows: p.Servers, readers: p.Readers}
	}
	n := c.Job.Ranks - c.Ranks.Readers
	return roles{trainers: n, rows: n, readers: c.Ranks.Readers}
}

// isTrainer reports whether a rank trains. Trainer i is rank i.
func (r roles) isTrainer(id int) bool { return id < r.trainers }

// ownerOf is the index of a rank among the owners of rows, -1 if it owns none.
func (r roles) ownerOf(id int) int {
	if id < r.first || id >= r.first+r.rows {
		return -1
	}
	return id - r.first
}

// readerOf is the index of a rank among the readers, -1 if it is none.
func (r roles) readerOf(id int) int { return max(id-r.first-r.rows, -1) }

// readerFor is the rank that reads for a trainer.
func (r roles) readerFor(trainer int) int { return r.first + r.rows + trainer%r.readers }

// topicReader is the rank that reads a topic.
func (r roles) topicReader() int {
	if r.readers > 0 {
		return r.readerFor(0)
	}
	return 0
}

// trainerIDs lists the ranks that train.
func (r roles) trainerIDs() []int {
	ids := make([]int, r.trainers)
	for i := range ids {
		ids[i] = i
	}
	return ids
}
