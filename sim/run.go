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

// Run runs a seed: its job without faults, and then with them. The error is a Failure.
func Run(d *Data, seed uint64) (*Outcome, error) {
	set := drawSetting(rand.New(rand.NewPCG(seed, purposeConfig)))
	want, err := reference(d, &set)
	if err != nil {
		return nil, &Failure{seed, set.String(), "none", err}
	}
	r := rand.New(rand.NewPCG(seed, purposeFaults))
	sets := set.free
	if set.wild && r.IntN(2) == 0 {
		dir := filepath.Join(d.dir, fmt.Sprint("checkpoints-", seed))
		defer os.RemoveAll(dir)
		set.saves = true
		sets = append(sets, "checkpoint.dir="+dir, fmt.Sprint("checkpoint.every=", 1+r.IntN(4)), "checkpoint.keep=2")
	}
	cfg, err := set.load(d, sets...)
	if err != nil {
		return nil, &Failure{seed, set.String(), "none", err}
	}
	s := newScheduler(seed)
	c := newCluster(s, cfg, set.processes, seed)
	c.delays, c.repair = set.delays, set.repair
	c.faults.waiting = drawFaults(r, set.processes, set.steps)
	if set.wild {
		c.faults.spare = -1
	}
	err = c.run()
	o := &Outcome{Seed: seed, Trace: s.trace, Decisions: s.decisions, Faults: len(c.faults.hit), Worlds: c.seen.joined, Checks: c.auditor.checks,
		FellBack: c.seen.fellBack, Tail: c.seen.tail && c.result == nil}
	if err = c.judge(o, want, err); err != nil {
		return o, &Failure{seed, set.String(), c.faults.String(), err}
	}
	return o, nil
}

// reference is the run without faults, of one process, with nothing that could change
// the result and should not.
func reference(d *Data, set *setting) (*train.Result, error) {
	cfg, err := set.load(d, "cache.mode=none")
	if err != nil {
		return nil, err
	}
	s := newScheduler(0)
	s.yields = 1 << 30
	c := newCluster(s, cfg, 1, 0)
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.result, nil
}

// judge compares a run with the one without faults.
func (c *cluster) judge(o *Outcome, want *train.Result, err error) error {
	if errors.As(err, new(*commit.Beyond)) && c.faults.beyond {
		o.Beyond = true
		return nil
	}
	if err != nil {
		return err
	}
	if o.Tail && len(c.faults.hit) > 0 {
		return nil
	}
	got := c.result
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
