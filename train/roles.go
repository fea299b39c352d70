package train

import "github.com/ecrec/ecrec/internal/config"

// roles says which ranks do what: trainers come first, then servers, which own
// rows, then readers. Where the config gives no parts, every rank but the readers
// trains and owns.
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

// trains reports whether a rank has samples; rank i is trainer i then.
func (r roles) trains(id int) bool { return id < r.trainers }

// owner is which owner of rows a rank is, -1 where it is none.
func (r roles) owner(id int) int {
	if id < r.first || id >= r.first+r.rows {
		return -1
	}
	return id - r.first
}

// reader is which reader a rank is, -1 where it is none.
func (r roles) reader(id int) int { return max(id-r.first-r.rows, -1) }

// feeds is the rank that reads for a trainer.
func (r roles) feeds(trainer int) int { return r.first + r.rows + trainer%r.readers }

// training lists the ranks that train.
func (r roles) training() []int {
	ids := make([]int, r.trainers)
	for i := range ids {
		ids[i] = i
	}
	return ids
}
