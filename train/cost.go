package train

import "time"

// Cost is what protection costs a rank: time of the training goroutine, but for Moved,
// and bytes.
type Cost struct {
	PreImages time.Duration // saving rows before their first write in an epoch
	Snapshots time.Duration // copying the dense part
	Waited    time.Duration // for the epoch before
	Sealed    time.Duration // making deltas
	Folded    time.Duration // adding deltas to parities
	Moved     time.Duration // sending and staging deltas, in the background
	SentBytes int64         // deltas
}

// cost is what protection has cost this rank so far.
func (r *rank) cost() Cost {
	if r.commits == nil {
		return Cost{}
	}
	s := r.commits.Stats()
	return Cost{s.PreImages, r.snapTook, s.Waited, s.Sealed, s.Folded, s.Moved, s.SentBytes}
}

// since is the mean of n steps after a time at which the cost was before.
func (c Cost) since(before Cost, n int) Cost {
	mean := func(after, before time.Duration) time.Duration { return (after - before) / time.Duration(n) }
	return Cost{mean(c.PreImages, before.PreImages), mean(c.Snapshots, before.Snapshots), mean(c.Waited, before.Waited),
		mean(c.Sealed, before.Sealed), mean(c.Folded, before.Folded), mean(c.Moved, before.Moved), (c.SentBytes - before.SentBytes) / int64(n)}
}

// unprotect has the rank train unprotected, until what it returns is called. It is for
// measurements, between commits.
func (r *rank) unprotect() (protect func()) {
	commits, journal := r.commits, r.shard.Journal()
	pause := func(paused bool) {
		if journal != nil {
			journal.Pause(paused)
		}
	}
	r.commits = nil
	pause(true)
	return func() {
		r.commits = commits
		pause(false)
	}
}
