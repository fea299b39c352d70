package train

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/stream"
)

// streaming is one rank's part in the stream of commits (stream.to). As with logs, all ranks agree on the epochs that are held. Without
// stream.to its store is nil, and its methods do nothing.
type streaming struct {
	protection *protection
	store      *store.Store
	streamed   int64 // the last step that the topic has of all ranks
	warned     bool  // of a topic that does not take anything
	checked    bool  // that the topic is not of another run
	track      *trace.Track
}

// openStream opens the stream of the rank.
func (x *streaming) openStream(p *protection) (err error) {
	r, j := p.rank, p.rank.job
	x.protection = p
	x.track = j.trace.Track(j.world.Process, fmt.Sprintf("rank %d stream", r.id))
	o := store.Options{Env: j.env, Rank: r.id, Ranks: j.ranks, Lineage: j.run.Lineage, Shard: r.shard, Digest: p.digestText,
		Rebuilt: func() bool { return p.lossLeft().Rows == 0 }, Key: "stream.to: " + j.cfg.Stream.To,
		Backlog: max(1, int64(j.cfg.Stream.Backlog)/int64(j.ranks)), Stopped: j.stopped.Load}
	if r.id == 0 {
		o.Past, o.Dense = p.pastAt, p.denseNow
	}
	later, session := j.world.Later, j.o.Session
	o.Stream = func() (store.Log, error) {
		log, err := x.openLog(later, session)
		later, session = true, session+1 // if it is opened again, in the background
		return log, err
	}
	if later { // the other ranks wait for this one, and not for the broker
		x.store = store.OpenLater(o)
		return nil
	}
	if x.store, err = store.Open(o); err != nil {
		return config.Errorf("%w", err)
	}
	return nil
}

// openLog opens the rank's partition. Later is set if the job has written to it, by another session.
func (x *streaming) openLog(later bool, session uint64) (store.Log, error) {
	r := x.protection.rank
	topic, err := r.job.o.Topic(r.job.env, r.job.cfg.Stream.To)
	if err != nil {
		return nil, err
	}
	defer topic.Close()
	o := stream.LogOptions{Env: r.job.env, Topic: &tracedTopic{topic, r.job.env, x.track}, Rank: r.id, Ranks: r.job.ranks,
		Session: session, Moved: later, Owners: x.owners(),
		Run: func() lineage.Run { return r.lineage }}
	if r.id == 0 {
		o.About = x.about
	}
	l, err := stream.OpenLog(o)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// owners lists, by rank, which rows each rank owns.
func (x *streaming) owners() (list []int) {
	j := x.protection.rank.job
	for id := range j.ranks {
		list = append(list, j.roles.ownerOf(id))
	}
	return list
}

// about describes the run.
func (x *streaming) about() ([]byte, error) {
	r := x.protection.rank
	model, err := json.Marshal(r.job.checkpointModel())
	if err != nil {
		return nil, err
	}
	a := stream.About{Run: r.lineage, Model: model, Owners: x.owners()}
	if recipe := r.job.o.Recipe; recipe.HasNames() {
		a.Recipe = recipe.Encode()
	}
	return json.Marshal(a)
}

// checkRun refuses, once the commits of a run begin, the topic of another run.
func (x *streaming) checkRun() error {
	if x.store == nil || x.checked || x.protection.rank.job.world.Later {
		return nil
	}
	x.checked = true
	if err := x.store.Failed(); err != nil {
		return config.Errorf("%w", err)
	}
	return nil
}

// addTo sets the fields of a status that are about the stream.
func (x *streaming) addTo(s *status) {
	if x.store != nil {
		s.unsent, s.crowded, s.mute = x.store.Behind(), x.store.Crowded(), x.store.Problem() != nil
	}
}

// streamedHere is the last step that the topic has of this rank.
func (x *streaming) streamedHere() int64 {
	if x.store == nil {
		return 0
	}
	return x.store.Durable()
}

// received takes the reports of all ranks after a seal.
func (x *streaming) received(all []sealReport) {
	if x.store == nil {
		return
	}
	x.streamed = all[0].streamed
	for _, y := range all[1:] {
		x.streamed = min(x.streamed, y.streamed)
	}
}

// takeStatus warns, on rank 0, if the topic takes nothing, and if it does again.
func (x *streaming) takeStatus(all []status) {
	if x.store == nil || x.protection.rank.id != 0 {
		return
	}
	to, observer := x.protection.rank.job.cfg.Stream.To, x.protection.rank.job.o.Observer
	i := slices.IndexFunc(all, func(s status) bool { return s.mute })
	switch {
	case i >= 0 && !x.warned:
		why := fmt.Errorf("stream.to: %s takes nothing from rank %d", to, i)
		if mine := x.store.Problem(); i == 0 && mine != nil {
			why = mine
		}
		observer.Warned(fmt.Sprintf("%v; training continues, and readers stay at step %d until it does", why, x.streamed))
	case i < 0 && x.warned:
		observer.Warned(fmt.Sprintf("stream.to: %s takes the rows of all ranks again", to))
	}
	x.warned = i >= 0
}

// holdIfBehind holds the next epoch if any rank had too much to send in the last status, which all ranks have. One that ends at a
// checkpoint is held later than others.
func (x *streaming) holdIfBehind(isCheckpoint bool) {
	if x.store != nil {
		x.store.Hold(holdsEpoch(x.protection.rank.conns.ctl.last, isCheckpoint))
	}
}

// holdsEpoch reports whether the next epoch is held, by the status of all ranks.
func holdsEpoch(all []status, isCheckpoint bool) bool {
	return slices.ContainsFunc(all, func(s status) bool { return s.crowded || s.unsent && !isCheckpoint })
}

// lose notes that the rank is new to the job.
func (x *streaming) lose() {
	if x.store != nil {
		x.store.Lose()
	}
}

// stoppedFor is how long a run that a signal ends waits for its topic: a batch system kills it soon, and its model is not saved yet.
const stoppedFor = 10 * time.Second

// finishStream sends the last epoch, also if it is held, and waits until the topic has it.
func (x *streaming) finishStream() {
	if x.store == nil {
		return
	}
	x.store.Flush()
	x.store.Complete(x.protection.rank.done)
	wait := drainFor
	if x.protection.rank.job.stopped.Load() {
		wait = stoppedFor
	}
	x.store.Drain(wait)
}

// reportUnsent warns, on rank 0 at the end of a job, if the topic lacks rows of any rank. All ranks call it.
func reportUnsent(p *protection) error {
	if p == nil || !streams(p.rank.job) {
		return nil
	}
	all, err := p.rank.conns.ctl.gather([]uint64{uint64(p.stream.streamedHere())})
	if err != nil || p.rank.id != 0 || p.stream.store == nil {
		return err
	}
	last, at := p.rank.done, 0
	for rank, w := range all {
		if step := int64(w[0]); step < last {
			last, at = step, rank
		}
	}
	if last == p.rank.done {
		return nil
	}
	why := p.stream.store.Problem()
	if at != 0 || why == nil {
		why = fmt.Errorf("stream.to: %s did not take all rows in time", p.rank.job.cfg.Stream.To)
	}
	p.rank.job.o.Observer.Warned(fmt.Sprintf("%v; the topic has rank %d up to step %d of %d; resume the run from its last checkpoint, and it "+
		"continues", why, at, last, p.rank.done))
	return nil
}

// streamedStep is the last step that the topic has of all ranks, as far as this rank knows.
func (p *protection) streamedStep() int64 {
	if p == nil {
		return 0
	}
	return p.stream.streamed
}
