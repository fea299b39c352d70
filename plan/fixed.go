package plan

import (
	"slices"

	"github.com/ecrec/ecrec/collectives"
)

// countFixed counts the messages of a step that do not depend on ids.
func (c *Counter) countFixed() {
	j := &c.job
	counts, status := countsOf(j), statusOf(j, j.StatusBytes)
	for rank := range c.Ranks {
		r := &c.Ranks[rank]
		for _, way := range []*[Classes]Traffic{&r.Sent, &r.Received} {
			way[Lists].Add(counts)
			way[Status].Add(status)
		}
	}
	for t := range j.Trainers {
		dense := reduced(j, t)
		c.Ranks[t].Sent[Dense].Add(dense)
		c.Ranks[t].Received[Dense].Add(dense)
	}
}

// countsOf counts the messages that each rank sends, and receives, to exchange how many rows the lists have.
func countsOf(j *Job) Traffic {
	s := collectives.AllToAllSent(j.Ranks, 4)
	return Traffic{s.Messages, s.Bytes}
}

// statusOf counts the same for a step status of some bytes.
func statusOf(j *Job, bytes int) Traffic {
	s, _ := collectives.AllGatherSent(j.Ranks, bytes)
	return Traffic{s.Messages, s.Bytes}
}

// reduced counts the messages of a trainer that reduce the dense gradients of a step.
func reduced(j *Job, trainer int) (t Traffic) {
	for _, floats := range j.Buckets {
		s := collectives.AllReduceSent(j.Trainers, trainer, floats, j.OneHost)
		t.Add(Traffic{s.Messages, s.Bytes})
	}
	return t
}

// endEpoch counts the deltas of the rows that the steps since the last epoch have changed.
func (c *Counter) endEpoch() {
	if c.inEpoch == 0 {
		return
	}
	j := &c.job
	slices.Sort(c.epoch)
	c.epoch = slices.Compact(c.epoch)
	for rest := c.epoch; len(rest) > 0; {
		owner := rest[0] >> slotBits
		n := len(rest)
		if i, _ := slices.BinarySearch(rest, (owner+1)<<slotBits); i < n {
			n = i
		}
		c.Ranks[j.First+int(owner)].Changed += c.weight * int64(n)
		if j.Coded {
			c.countDeltas(int(owner), rest[:n])
		}
		rest = rest[n:]
	}
	if j.Coded {
		c.countCounts()
	}
	usual, longer := statusOf(j, j.StatusBytes), statusOf(j, j.StatusBytes+j.SealBytes)
	for rank := range c.Ranks {
		for _, way := range []*[Classes]Traffic{&c.Ranks[rank].Sent, &c.Ranks[rank].Received} {
			way[Status].Add(Traffic{longer.Messages - usual.Messages, longer.Bytes - usual.Bytes})
		}
	}
	c.Epochs, c.EpochSteps = c.Epochs+1, c.EpochSteps+c.inEpoch
	c.epoch, c.inEpoch = c.epoch[:0], 0
}

// countDeltas counts the deltas of an owner's changed rows, for each holder of their parities.
func (c *Counter) countDeltas(owner int, rows []uint64) {
	group := c.job.Layout.GroupOf(owner)
	data := uint64(group.Data())
	each := make([]int64, data) // rows by slot modulo data
	for _, row := range rows {
		each[row&(1<<slotBits-1)%data]++
	}
	to := make([]int64, group.Size)
	for slot, n := range each {
		stripe, _ := group.Stripe(owner, int64(slot))
		for parity := range group.Parity {
			holder, _ := group.Holder(stripe, group.Data()+parity)
			to[holder-group.First] += n
		}
	}
	from := c.job.First + owner
	for i, n := range to {
		holder := c.job.First + group.First + i
		c.Ranks[holder].Folded += c.weight * n
		c.send(from, holder, Deltas, 4*n) // slots
		c.send(from, holder, Deltas, int64(4*c.job.Stride)*n)
	}
}

// countCounts counts how many deltas follow: each owner sends that to its group.
func (c *Counter) countCounts() {
	for g := range c.job.Layout.Groups() {
		group := c.job.Layout.Group(g)
		for from := range group.Size {
			for to := range group.Size {
				c.send(c.job.First+group.First+from, c.job.First+group.First+to, Deltas, 4)
			}
		}
	}
}
