package train

import (
	"math"
	"slices"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/kernels"
)

// status is a rank's report to all others, once in every step.
type status struct {
	loss float64 // sum over the slice
	stop bool    // this rank was asked to stop
	save bool    // a checkpoint is due, by rank 0's clock or since one was given up
	// saved: this rank has done its work in the present stage of the save under way. unsaved: it failed.
	saved, unsaved bool
	// prepared is the step of the newest epoch that this rank is prepared to commit.
	prepared int64
	degraded bool // this rank has lost something and not rebuilt all of it
	behind   bool // the log of this rank's commits is behind
	stalled  bool // the log cannot be written
	unsent   bool // too much of this rank's stream waits
	crowded  bool // twice as much
	mute     bool // the topic takes nothing from this rank
	dirty    bool // many rows in this rank's memory have been written since the last seal
	// seal is sent in the first status after a seal. It is nil in all others, on all ranks.
	seal *sealReport
	// rebuild is sent while any rank is degraded. It is nil else, on all ranks.
	rebuild *rebuildReport
}

// sealReport is a rank's report after a seal.
type sealReport struct {
	part    partSum // the digest of this rank's part of the model at the newest seal
	durable int64   // the last step in this rank's log that survives the loss of all processes
	// streamed is the last step that the topic has of this rank.
	streamed int64
}

func (x *sealReport) words() []uint64 {
	return append(x.part.words(), uint64(x.durable), uint64(x.streamed))
}

func sealReportOf(w []uint64) sealReport {
	return sealReport{partSumOf(w), int64(w[partSumWords]), int64(w[partSumWords+1])}
}

// statusFields is how many 64-bit fields a status has on the wire, without its reports.
const statusFields = 3

const (
	flagStop = 1 << iota
	flagSave
	flagDegraded
	flagBehind
	flagStalled
	flagSaved
	flagUnsaved
	flagDirty
	flagUnsent
	flagCrowded
	flagMute
)

// control exchanges the status of a step, and other short lists of numbers, between all
// ranks. One exchange is in progress at a time.
type control struct {
	comm  *collectives.Comm
	mine  []uint64
	all   []uint64
	seals []sealReport // of all ranks, if the status has them
	last  []status     // of all ranks, as exchanged last
	// rebuilds are of all ranks, if the status has them. isSealed and isRebuilding: the status under way has them.
	rebuilds               []rebuildReport
	isSealed, isRebuilding bool
}

func newControl(comm *collectives.Comm) *control {
	n := comm.Size()
	return &control{comm: comm, seals: make([]sealReport, n), rebuilds: make([]rebuildReport, n), last: make([]status, n)}
}

// sendStatus starts to send this rank's status to all ranks. receiveStatus ends it.
func (c *control) sendStatus(s status) *collectives.Handle {
	flags := uint64(0)
	for _, f := range []struct {
		set  bool
		flag uint64
	}{{s.stop, flagStop}, {s.save, flagSave}, {s.degraded, flagDegraded}, {s.behind, flagBehind}, {s.stalled, flagStalled},
		{s.saved, flagSaved}, {s.unsaved, flagUnsaved}, {s.dirty, flagDirty},
		{s.unsent, flagUnsent}, {s.crowded, flagCrowded}, {s.mute, flagMute}} {
		if f.set {
			flags |= f.flag
		}
	}
	c.mine = append(c.mine[:0], math.Float64bits(s.loss), flags, uint64(s.prepared))
	c.isSealed, c.isRebuilding = s.seal != nil, s.rebuild != nil
	if c.isRebuilding {
		c.mine = append(c.mine, s.rebuild.words()...)
	}
	if c.isSealed {
		c.mine = append(c.mine, s.seal.words()...)
	}
	c.all = slices.Grow(c.all[:0], len(c.last)*len(c.mine))[:len(c.last)*len(c.mine)]
	return c.comm.AllGather(kernels.HostBuffer(c.all), kernels.HostBuffer(c.mine)).Start()
}

// receiveStatus returns the status of all ranks, in rank order.
func (c *control) receiveStatus(h *collectives.Handle) ([]status, error) {
	if err := h.Wait(); err != nil {
		return nil, err
	}
	for rank := range c.last {
		x := c.all[len(c.mine)*rank:]
		c.last[rank] = status{loss: math.Float64frombits(x[0]), stop: x[1]&flagStop != 0, save: x[1]&flagSave != 0,
			prepared: int64(x[2]), degraded: x[1]&flagDegraded != 0, behind: x[1]&flagBehind != 0, stalled: x[1]&flagStalled != 0,
			saved: x[1]&flagSaved != 0, unsaved: x[1]&flagUnsaved != 0, dirty: x[1]&flagDirty != 0,
			unsent: x[1]&flagUnsent != 0, crowded: x[1]&flagCrowded != 0, mute: x[1]&flagMute != 0}
		x = x[statusFields:]
		if c.isRebuilding {
			c.rebuilds[rank] = rebuildReportOf(x)
			c.last[rank].rebuild = &c.rebuilds[rank]
			x = x[rebuildWords:]
		}
		if c.isSealed {
			c.seals[rank] = sealReportOf(x)
			c.last[rank].seal = &c.seals[rank]
		}
	}
	return c.last, nil
}

// gather exchanges a list of numbers, of one length on all ranks. It returns the lists in
// rank order.
func (c *control) gather(mine []uint64) ([][]uint64, error) {
	n := c.comm.Size()
	all := make([]uint64, n*len(mine))
	if err := c.comm.AllGather(kernels.HostBuffer(all), kernels.HostBuffer(mine)).Wait(); err != nil {
		return nil, err
	}
	lists := make([][]uint64, n)
	for r := range lists {
		lists[r] = all[r*len(mine) : (r+1)*len(mine)]
	}
	return lists, nil
}

// decision says whether all ranks stop or save after a step. It follows from the status of
// all ranks, so it is equal on all.
type decision struct {
	loss       float64 // mean over the global batch
	stop, save bool
	// saved: all ranks have done their work in the stage of the save under way. unsaved: one failed.
	saved, unsaved bool
}

// decide combines the status of all ranks. Sums run in rank order.
func decide(all []status, samples int) (d decision) {
	d.saved = true
	for _, s := range all {
		d.loss += s.loss
		d.stop = d.stop || s.stop
		d.save = d.save || s.save
		d.saved = d.saved && s.saved
		d.unsaved = d.unsaved || s.unsaved
	}
	d.loss /= float64(samples)
	return d
}
