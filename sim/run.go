package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/train"
)

// The modes of runs. In safety anything may fail, at any rate: the result is right, or
// refused. In liveness no more fails at a time than the job must bear, and the faults
// end: it must finish.
const (
	Safety   = "safety"
	Liveness = "liveness"
)

// Run runs a seed, in one of the modes or, where it is empty, in the seed's: its job
// without faults, and then with them. The error is a Failure.
func Run(d *Data, seed uint64, mode string) (*Outcome, error) {
	set := drawSetting(rand.New(rand.NewPCG(seed, purposeConfig)), mode)
	want, err := reference(d, &set)
	if err != nil {
		return nil, &Failure{seed, set.String(), "none", nil, err}
	}
	r := rand.New(rand.NewPCG(seed, purposeFaults))
	sets := set.free
	if set.safety && r.IntN(2) == 0 {
		dir := filepath.Join(d.dir, fmt.Sprint("checkpoints-", seed))
		defer os.RemoveAll(dir)
		set.saves = true
		sets = append(sets, "checkpoint.dir="+dir, fmt.Sprint("checkpoint.every=", 1+r.IntN(8)), "checkpoint.keep=2")
	}
	cfg, err := set.load(d, sets...)
	if err != nil {
		return nil, &Failure{seed, set.String(), "none", nil, err}
	}
	s := newScheduler(seed)
	c := newCluster(s, cfg, &set, seed)
	c.faults.waiting, c.faults.any = drawFaults(r, &set), set.safety
	err = c.run()
	o := &Outcome{Seed: seed, Trace: s.trace, Decisions: s.decisions, Faults: c.faults.count, Worlds: c.seen.worlds, Checks: c.auditor.checks,
		Adopted: c.seen.adopted, Replaced: c.seen.replaced, FellBack: c.seen.fellBack}
	if err = c.judge(o, want, err); err != nil {
		return o, &Failure{seed, set.String(), c.faults.String(), c.seen.history, err}
	}
	return o, nil
}

// reference is the run without faults, of one process, with nothing that could change
// the result and should not.
func reference(d *Data, set *setting) (want *train.Result, err error) {
	cfg, err := set.load(d, "cache.mode=none")
	if err != nil {
		return nil, err
	}
	s := newScheduler(0)
	s.yields = 1 << 30
	n := s.node("reference")
	ended := s.run(n, func() {
		want, err = train.Run(n, cfg, train.Options{Stop: func() bool { return false }, Observer: observer{&process{node: &node{dead: true}}}})
	})
	return want, errors.Join(ended, err)
}

// judge compares a run with the one without faults.
func (c *cluster) judge(o *Outcome, want *train.Result, err error) error {
	if beyond := errors.As(err, new(*commit.Beyond)); beyond && c.faults.beyond && c.faults.any {
		o.Beyond = true
		return nil
	}
	if err != nil {
		return err
	}
	got := c.result()
	if got == nil {
		return errors.New("the job ended without a result")
	}
	o.Digest = got.Digest
	switch {
	case got.Digest != want.Digest:
		return fmt.Errorf("digest %s, want %s", got.Digest, want.Digest)
	case got.Steps != want.Steps:
		return fmt.Errorf("%d steps, want %d", got.Steps, want.Steps)
	case !slices.Equal(got.TrainLoss, want.TrainLoss):
		return fmt.Errorf("losses %v, want %v", got.TrainLoss, want.TrainLoss)
	case !slices.Equal(got.Eval, want.Eval):
		return fmt.Errorf("evaluations %v, want %v", got.Eval, want.Eval)
	}
	if o.FellBack && !c.faults.beyond {
		return errors.New("it fell back to a checkpoint where the code makes good what was lost")
	}
	for _, x := range c.seen.recoveries {
		if most := maxUncommitted * int64(c.cfg.EC.CommitEvery); x.StepsRedone > most {
			return fmt.Errorf("a recovery redid %d steps, more than %d commit_every = %d: %+v", x.StepsRedone, maxUncommitted, most, x)
		}
	}
	return c.auditor.err
}

// maxUncommitted is how many epochs a loss can take back: one that is sealed, and the
// one under way.
const maxUncommitted = 2
