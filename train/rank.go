package train

import (
	"encoding/json"
	"fmt"
	"unsafe"

	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/train/feed"
	"github.com/ecrec/ecrec/transport"
)

// The channels of a rank, each a communicator of its own. Operations on one channel run in
// order; those on different channels overlap.
const (
	chanPlan     uint16 = iota + 1 // request lists of training
	chanEvalPlan                   // request lists of evaluation
	chanRows                       // rows and row gradients that a step waits for
	chanDelayed                    // rows and row gradients that move while a step computes
	chanDense                      // dense gradients
	chanControl                    // step status
	chanFeed                       // slices from readers, of training
	chanEvalFeed                   // slices from readers, of evaluation
	chanCommit                     // deltas of rows
	chanRebuild                    // stripes that lost rows are decoded from
	chanSums                       // sums within the forward and the backward pass
	chanTrial                      // the first of those of Trial.OpenComm
)

// CarriesRows reports whether the messages of a tag have rows or row gradients of training. It is for measurements of links.
func CarriesRows(t transport.Tag) bool {
	channel := uint16(t >> 48)
	return channel == chanRows || channel == chanDelayed
}

// rank is one rank of a job, with its state from world to world.
type rank struct {
	job *job
	id  int
	part
	conns connections // of the world that it is in

	protection  *protection // nil: the job commits nothing
	checkpoints checkpointer
	lineage     lineage.Run // the run that it trains; zero until it has begun
	history     history
	buffers     buffers

	probe     *probe.Probe
	tracks    tracks
	meter     meterShare
	done      int64 // the last step trained
	evaluated int64 // the last step after which the model was evaluated
	intake    intake
}

// newRank allocates a rank. Close frees it, also after an error.
func newRank(j *job, id int) (r *rank, err error) {
	r = &rank{job: j, id: id, tracks: newTracks(j.trace, j.world.Process, id), meter: meterShare{meter: j.o.Meter}}
	r.part = part{env: j.env, dev: j.dev, s: j.dev.Stream(j.threadsOf(id))}
	var inject probe.Inject
	if j.o.Inject != nil {
		inject = func(step int64, at probe.Point) error { return j.o.Inject(id, step, at) }
	}
	r.probe = probe.New(j.env, r.tracks.stages, inject)
	r.checkpoints = checkpointer{id: id, part: &r.part, topology: &j.topology, probe: r.probe, reported: j.o.Observer.Checkpointed,
		warnOnce: j.warnOnce, rowsPerStep: j.o.SaveRows, session: j.o.SaveSession}
	if _, isGPU := kernels.GPU(j.dev); !isGPU { // a GPU's stream has the products of a step queued
		r.s = &breakingStream{r.s, j}
	}
	if j.o.WrapStream != nil {
		r.s = j.o.WrapStream(id, r.s)
	}
	c := j.modelConfig(id)
	c.Blank = j.world.Trained && j.coded() // others send the trained part
	if err := r.part.open(&j.topology, id, j.rowOptions(j.roles.ownerOf(id)), c); err != nil {
		return r, err
	}
	if savesIncrements(j.cfg.Checkpoint, j.o.EvalOnly) {
		r.checkpoints.increments.isOn = true
		r.shard.ListWritten(false)
	}
	if j.o.Below != nil {
		r.shard.OpenTier(j.env, j.o.Below(id, r.shard))
	} else if j.tiers() && j.o.EvalOnly && r.shard.Slots() > 0 {
		r.shard.OpenTier(j.env, store.Scratch(j.env, j.cfg.Store.Path, r.shard))
	}
	if err := r.openProtection(); err != nil {
		return r, err
	}
	if err := r.openHistory(); err != nil {
		return r, err
	}
	r.updateMeter()
	return r, r.buffers.allocSamples(j.dev, j.maxSliceOf(id), j.schema.Dense, j.cfg.Model.Means())
}

// close frees a rank that has left its world.
func (r *rank) close() {
	r.meter.hideFigures()
	r.checkpoints.closeSaves()
	r.protection.close()
	r.part.free()
	r.buffers.free()
	r.job.host.Free(r.buffers.history)
	r.s.Close()
}

// startFeed starts the pipeline of a span. It uses one channel for plans and one for slices
// from readers.
func (r *rank) startFeed(s feed.Span, plans, slices uint16, po lrpp.PlanOptions) *feed.Pipeline {
	j := r.job
	po.FirstOwner, po.Before = j.roles.first, s.First-1
	s.Threads = planThreads(r)
	var notice func(string)
	if r.id == 0 {
		notice = j.o.Observer.Warned
	}
	var lists kernels.Device
	if j.dev != j.host {
		lists = j.dev
	}
	return feed.Start(feed.Options{
		Lists: lists,
		Env:   r.env, Endpoint: r.conns.ep, Channel: plans, Host: j.host, Place: j.place, TableOf: j.schema.TableOf,
		Steps: s.Last - s.First + 1, Plan: po, Threads: planThreads(r),
		Open:    func(ahead int) feed.Batches { return r.openBatches(s, slices, ahead) },
		Explain: j.explainCapacity, Probe: r.probe, Track: r.tracks.planner, Notice: notice,
	})
}

// planThreads is the number of threads that plan. A GPU leaves the rank's threads idle. On the CPU they compute, and one thread
// plans beside them.
func planThreads(r *rank) int {
	if r.job.dev == r.job.host {
		return 1
	}
	return r.job.threadsOf(r.id)
}

// openBatches opens the source of this rank's slices: it reads them itself, or a reader
// sends them on a channel. A rank that trains nothing has empty slices.
func (r *rank) openBatches(s feed.Span, channel uint16, ahead int) feed.Batches {
	ro := r.job.roles
	switch {
	case s.Topic != nil && r.id == ro.topicReader():
		return feed.FeedTopic(r.env, s, r.conns.ep, channel, ro.trainers)
	case s.Topic != nil:
		return feed.ReceiveTopic(s, r.conns.ep, channel, ro.topicReader(), r.job.schema)
	case ro.isTrainer(r.id) && ro.readers > 0:
		return feed.Receive(s, r.conns.ep, channel, ro.readerFor(r.id), r.job.schema)
	case ro.isTrainer(r.id):
		return feed.Read(r.env, s, r.id, ro.trainers, ahead)
	case ro.readerOf(r.id) >= 0:
		var served []int
		for t := ro.readerOf(r.id); t < ro.trainers; t += ro.readers {
			served = append(served, t)
		}
		return feed.Serve(r.env, s, r.conns.ep, channel, served, ro.trainers, ahead)
	}
	return feed.Empty(s)
}

// openHistory allocates memory for the losses of all steps, if the rank keeps them. It is
// off the Go heap, and becomes physical as it is written.
func (r *rank) openHistory() (err error) {
	if !r.job.keepsLosses(r.id) || r.job.o.EvalOnly {
		return nil
	}
	if r.buffers.history, err = r.job.host.Alloc(8*int(min(r.job.steps, mostLosses)), kernels.Sparse); err != nil {
		return fmt.Errorf("train: memory for the losses of %d steps: %w", r.job.steps, err)
	}
	r.history.TrainLoss = r.lossRoom()
	return nil
}

// lossRoom is an empty list in the memory of the losses.
func (r *rank) lossRoom() losses {
	room := r.buffers.history.Host()
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(room))), len(room)/8)[:0]
}

// readHistory sets the history to that of a checkpoint.
func (r *rank) readHistory(text []byte) error {
	past := history{TrainLoss: r.lossRoom()}
	if err := json.Unmarshal(text, &past); err != nil {
		return err
	}
	if !r.job.keepsLosses(r.id) {
		past.TrainLoss = nil
	}
	r.history = past
	return nil
}

// updateMeter shows what this rank moves, holds and has lost.
func (r *rank) updateMeter() {
	j, f := r.job, figures{ranks: 1}
	f.setClass(ClassCritical, r.meter.moved.Critical.Rows, r.meter.moved.Critical.Bytes)
	f.setClass(ClassDelayed, r.meter.moved.Delayed.Rows, r.meter.moved.Delayed.Bytes)
	owner := j.roles.ownerOf(r.id)
	if owner >= 0 {
		f.rowBytes = shard.Bytes(j.rowOptions(owner))
		read, spilled := r.shard.Moved()
		f.setClass(ClassRead, read, read*int64(j.bytesPerRow()))
		f.setClass(ClassSpill, spilled, spilled*int64(j.bytesPerRow()))
	}
	if p := r.protection; p != nil && p.parity != nil {
		s := p.parity.Stats()
		rebuilt, _, read := p.parity.Rebuilt()
		f.setClass(ClassParity, s.SentRows, s.SentBytes)
		f.setClass(ClassRebuild, rebuilt, read)
		if owner >= 0 {
			f.parityBytes = j.layout.GroupOf(owner).ParityRows(owner, j.place.Slots(0)) * int64(j.bytesPerRow())
		}
		f.missing = p.parity.Left()
	}
	r.meter.showFigures(f)
}
