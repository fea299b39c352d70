package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// harm is the damage that a broker does to a topic, beside single failures. The first part any broker may do: it is down for a
// while, records of a dead process arrive after those of its successor, and only a part of a batch is there twice. The second part
// none should do: it loses acknowledged records at the end of a partition, as an unclean election does, or has the records of a
// batch in another order, as from a producer that is not idempotent. Readers must then find a gap, or the model of the last step.
// It draws from random numbers of its own, and changes nothing else in a run.
type harm struct {
	draw    *rand.Rand
	late    bool
	partial bool
	stop    int           // after how many acknowledged batches it is down for a while; 0: it is not
	down    time.Duration // until when
	losses  []int         // after how many acknowledged batches of the topic records are lost, ascending
	mixes   int           // of so many batches one is in another order; 0: none is
	batches int           // that were acknowledged
	lost    int           // losses of records
	mixed   int           // batches in another order
}

// The latest time at which records of a dead process arrive, the longest time for which the broker is down, and the range of batches within
// which records are lost.
const (
	latestArrival = 3 * time.Second
	longestDown   = 20 * time.Second
	batchSpread   = 60
)

func drawHarm(seed uint64) harm {
	r := rand.New(rand.NewPCG(seed, purposeTopic))
	h := harm{draw: r, late: r.IntN(2) == 0, partial: r.IntN(2) == 0}
	switch r.IntN(8) {
	case 0, 1:
		for range 1 + r.IntN(2) {
			h.losses = append(h.losses, 1+r.IntN(1+r.IntN(batchSpread)))
		}
		slices.Sort(h.losses)
	case 2:
		h.mixes = 2 + r.IntN(20)
	case 3:
		h.stop = 1 + r.IntN(batchSpread)
	}
	return h
}

// isDone reports whether the broker has broken a promise.
func (h *harm) isDone() bool { return h.lost+h.mixed > 0 }

// isDown reports whether the broker takes nothing now.
func (h *harm) isDown(now time.Duration) bool {
	if h.stop > 0 && h.batches >= h.stop {
		h.stop, h.down = 0, now+time.Duration(h.draw.Int64N(int64(longestDown)))
	}
	return now < h.down
}

// lateness is the time after which the last records of a dead process arrive.
func (h *harm) lateness() time.Duration {
	if !h.late {
		return 0
	}
	return time.Duration(h.draw.Int64N(int64(latestArrival)))
}

// doubled is how many records of a batch whose acknowledgement is lost are in the partition.
func (h *harm) doubled(n int) int {
	if !h.partial {
		return n
	}
	return h.draw.IntN(n + 1)
}

// disorder returns the records of a batch in the order in which the broker has them.
func (h *harm) disorder(list [][]byte) [][]byte {
	if h.mixes == 0 || len(list) < 2 || h.draw.IntN(h.mixes) > 0 {
		return list
	}
	h.mixed++
	from, to := h.draw.IntN(len(list)), h.draw.IntN(len(list)-1)
	mixed := slices.Delete(slices.Clone(list), from, from+1)
	return slices.Insert(mixed, to, list[from])
}

// truncate is called when a batch was acknowledged. If records are due to be lost, a partition loses those at its end.
func (h *harm) truncate(b *broker) {
	h.batches++
	for len(h.losses) > 0 && h.losses[0] <= h.batches {
		h.losses = h.losses[1:]
		l := b.logs[h.draw.IntN(len(b.logs))]
		l.takeLate(b.c.s.Now())
		if n := len(l.records); n > 0 {
			h.lost++
			l.bare = true
			l.addChange(change{at: b.c.s.Now(), from: int64(n - 1 - h.draw.IntN(1+h.draw.IntN(n)))})
		}
	}
}
