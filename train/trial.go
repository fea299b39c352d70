package train

import (
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/train/feed"
)

// Trial is one rank of a job whose steps the caller runs, to measure them. All ranks call
// the same methods in the same order.
type Trial struct{ rank *rank }

// Try opens the job of a config, for a number of steps, and calls f on each rank of this
// process.
func Try(e env.Env, cfg *config.Config, o Options, steps int64, f func(*Trial) error) (info Info, err error) {
	j := newJob(e, cfg, o)
	if err := j.open(); err != nil {
		return info, err
	}
	defer j.close()
	j.steps = steps
	err = j.eachRank(func(r *rank) error {
		err := f(&Trial{r})
		if r.id == 0 {
			info = j.infoOf(r)
		}
		return err
	})
	return info, err
}

// Rank is the rank's number.
func (t *Trial) Rank() int { return t.rank.id }

// Barrier returns when all ranks have called it.
func (t *Trial) Barrier() error { return t.rank.conns.ctl.comm.Barrier().Wait() }

// Model is the rank's model.
func (t *Trial) Model() model.Model { return t.rank.model }

// SetModel replaces the rank's model.
func (t *Trial) SetModel(m model.Model) { t.rank.model = m }

// Device is where the rank computes, and its stream.
func (t *Trial) Device() (kernels.Device, kernels.Stream) { return t.rank.dev, t.rank.s }

// RowSize is the number of weights of a row, and of its optimizer state in floats.
func (t *Trial) RowSize() (width, state int) { return t.rank.job.width, t.rank.job.rowState() }

// Mode is the mode of a cache.mode in this job.
func (t *Trial) Mode(name string) lrpp.Mode { return t.rank.job.modeOf(name) }

// TouchAll touches all rows and counts them as written, and begins commits if the job protects rows. No row changes.
func (t *Trial) TouchAll() error {
	if err := shard.CountAsWritten(t.rank.shard); err != nil {
		return err
	}
	if err := t.BeginCommits(); err != nil {
		return err
	}
	if p := t.rank.protection; p != nil && p.parity != nil {
		p.parity.TouchAll()
	}
	return nil
}

// BeginCommits begins commits if the job protects rows.
func (t *Trial) BeginCommits() error {
	if t.rank.protection == nil {
		return nil
	}
	return t.rank.protection.beginCommits()
}

// OpenCache opens the cache of cache.mode lrpp, for passes of some steps.
func (t *Trial) OpenCache(steps int64) error { return t.rank.openCache(steps) }

// Shard holds the rows that the rank owns, on the stream of Device.
func (t *Trial) Shard() *shard.Shard { return t.rank.shard }

// OpenComm opens communicator i of the caller, counted from 0, beside those of the job. The rank closes it.
func (t *Trial) OpenComm(i int) *collectives.Comm {
	return t.rank.conns.openComm(t.rank.conns.ep, chanTrial+uint16(i))
}

// Reduce starts to all-reduce b among the trainers, as a part of the dense gradient of the step under way. It is called during the
// backward pass. b belongs to the rank until the step ends.
func (t *Trial) Reduce(b kernels.Buffer) {
	g := &t.rank.conns
	if g.dense != nil {
		g.reduces = append(g.reduces, g.dense.AllReduce(b).Start())
	}
}

// BaseExchange exchanges rows without a cache.
func (t *Trial) BaseExchange() Exchange { return t.rank.conns.base }

// SetExchange has the next pass exchange rows by x.
func (t *Trial) SetExchange(x Exchange) { t.rank.conns.exchange = x }

// SetMode has the next pass exchange rows in a mode. Cached needs OpenCache.
func (t *Trial) SetMode(mode lrpp.Mode) {
	if mode == lrpp.Cached {
		t.SetExchange(t.rank.conns.cache)
		return
	}
	t.SetExchange(t.rank.conns.base)
}

// SuspendProtection lets the rank train unprotected until resume is called, between commits.
func (t *Trial) SuspendProtection() (resume func()) {
	r := t.rank
	protection, journal := r.protection, r.shard.Journal()
	pause := func(paused bool) {
		if journal != nil {
			journal.Pause(paused)
		}
	}
	r.protection = nil
	pause(true)
	return func() {
		r.protection = protection
		pause(false)
	}
}

// SuspendStream leaves commits out of the stream until resume is called, between commits.
func (t *Trial) SuspendStream() (resume func()) {
	s := t.rank.protection.stream.store
	s.Pause(true)
	return func() { s.Pause(false) }
}

// Pass is a number of consecutive steps of a Trial.
type Pass struct {
	rank *rank
	feed *feed.Pipeline
}

// Start starts a pass, whose steps are planned in a mode.
func (t *Trial) Start(mode lrpp.Mode, steps int) *Pass {
	r := t.rank
	if r.protection != nil {
		r.protection.commits.Begin(r.done, true) // it has not seen unprotected steps
	}
	s := feed.Span{Source: r.job.train, Order: r.job.order, First: r.done + 1, Last: r.done + int64(steps)}
	return &Pass{r, r.startFeed(s, chanPlan, chanFeed, r.planOptions(mode))}
}

// Train trains the next step, and continues the save under way.
func (p *Pass) Train() error {
	r := p.rank
	began := r.env.Now()
	d, err := r.trainNext(p.feed, r.done+1)
	if err != nil {
		return err
	}
	return r.completeSave(r.checkpoints.proceed(d, r.env.Now()-began, r.conns.ctl))
}

// Close ends a pass; err is the error that ended it early, if any.
func (p *Pass) Close(err error) { closeFeed(p.rank, p.feed, err) }

// Stages is the time of each stage of the last step.
func (t *Trial) Stages() [probe.Stages]time.Duration { return t.rank.probe.Spent() }

// Moved is the traffic that this rank received since ResetMoved.
func (t *Trial) Moved() lrpp.Moved { return t.rank.meter.moved }

// ResetMoved starts to count from zero.
func (t *Trial) ResetMoved() { t.rank.meter.moved = lrpp.Moved{} }

// Cost is the cost of protection on this rank so far.
func (t *Trial) Cost() Cost { return t.rank.protection.cost() }

// Settle returns all rows to their owners and commits all steps. It returns the cost of
// protection on all ranks.
func (t *Trial) Settle() (sum Protection, err error) {
	if err := t.rank.conns.exchange.Settle(); err != nil {
		return sum, err
	}
	p := t.rank.protection
	if p == nil {
		return sum, nil
	}
	if err := p.commitAll(); err != nil {
		return sum, err
	}
	return p.sumCosts()
}

// SaveCheckpoint saves a checkpoint after the last step.
func (t *Trial) SaveCheckpoint() error { return t.rank.saveCheckpoint(t.rank.done, true) }

// SettleAndSave saves a checkpoint after the last step of a pass, and training waits for it.
func (t *Trial) SettleAndSave() error {
	if err := t.rank.conns.exchange.Settle(); err != nil {
		return err
	}
	return t.SaveCheckpoint()
}

// BeginSave begins to save a checkpoint after the last step, beside the steps that follow.
func (t *Trial) BeginSave() error {
	if err := t.rank.conns.exchange.Settle(); err != nil {
		return err
	}
	return t.rank.saveCheckpoint(t.rank.done, false)
}

// Saving reports whether a save is under way, and how many bytes of this rank's rows are aside for it.
func (t *Trial) Saving() (aside int64, ok bool) {
	s := t.rank.checkpoints.saving
	if s != nil && s.pin != nil {
		aside = s.pin.Bytes()
	}
	return aside, s != nil
}

// MultiplyOnly computes the matrix products of a step and nothing else.
func (t *Trial) MultiplyOnly() error {
	r := t.rank
	slice := 0
	if trainers := r.job.roles.trainers; r.id < trainers {
		batch := r.job.order.BatchSize(1)
		slice = (r.id+1)*batch/trainers - r.id*batch/trainers
	}
	r.model.GEMMs(slice)
	return r.s.Sync()
}
