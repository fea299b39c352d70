package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/train"
)

// Run runs a seed: its job without faults, and then with them. The error is a *Failure.
func Run(d *Data, seed uint64, opts Options) (*Outcome, error) {
	set := d.drawSetting(rand.New(rand.NewPCG(seed, purposeConfig)), opts)
	models := [2]string{d.filePath(fmt.Sprint("model-want-", seed), 0), d.filePath(fmt.Sprint("model-got-", seed), 0)}
	for _, dir := range models {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	r := rand.New(rand.NewPCG(seed, purposeFaults))
	saves := set.drawSaves(r, seed, d.dir)
	if saves.dir != "" {
		defer os.RemoveAll(saves.dir)
	}
	set.drawInput(d, seed)
	want, err := reference(d, &set, filepath.Join(models[0], modelName))
	if err != nil {
		return nil, &Failure{seed, set.String(), "none", nil, err}
	}
	sets := slices.Concat(set.free, saves.sets, set.storeSets(seed), set.streamSets(seed), set.inputSets())
	cfg, err := set.loadConfig(d, sets...)
	if err != nil {
		return nil, &Failure{seed, set.String(), "none", nil, err}
	}
	s := newScheduler(rand.New(rand.NewPCG(seed, purposeSchedule)), decisionsOf(set.ranks))
	c := newCluster(s, cfg, &set, seed)
	if set.samples {
		if c.samples, err = newSamples(d, &set, seed); err != nil {
			return nil, err
		}
	}
	c.saveTo = filepath.Join(models[1], modelName)
	c.saves = saves
	s.FailWork(func(what string) error { return saves.fail(what, c.furthest) })
	c.faults.waiting, c.faults.unlimited = drawFaults(r, &set), set.safety
	err = c.runJob()
	o := &Outcome{Seed: seed, Trace: s.Trace(), Decisions: s.Decisions(), Faults: c.faults.count, Worlds: c.seen.worlds, Checks: c.auditor.checks,
		Reassigned: c.seen.reassigned, Replaced: c.seen.replaced, Restored: c.seen.restored,
		FromLogs: c.seen.fromLogs, Saves: c.seen.saved, Unsaved: c.seen.unsaved, FromTopic: set.samples}
	if err = c.checkOutcome(o, want, err); err == nil && !o.Unrecoverable && !set.samples { // else the file names other data; the digest of its tensors is compared
		err = sameFile(filepath.Join(models[0], modelName), c.saveTo)
	}
	if err == nil && !o.Unrecoverable {
		o.Kept, err = saves.check(o.count(freezeHost) > 0)
	}
	if err == nil && !o.Unrecoverable && set.streams {
		err = c.broker.checkReaders(o, seed, d.filePath(fmt.Sprint("follow-", seed), 0))
	}
	if err != nil {
		return o, &Failure{seed, set.String(), c.faults.String(), c.seen.history, err}
	}
	return o, nil
}

// modelName is the name of the model that a job saves, in a folder of its own.
const modelName = "model.safetensors"

// sameFile returns an error unless two files have the same bytes.
func sameFile(want, got string) error {
	a, err := os.ReadFile(want)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(got)
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("%s is not the model of the run without faults", got)
	}
	return err
}

// reference runs the job without faults, in one process, without anything that must not
// change the result.
func reference(d *Data, set *setting, saveTo string) (want *train.Result, err error) {
	cfg, err := set.loadConfig(d, "cache.mode=none")
	if err != nil {
		return nil, err
	}
	o := drawSchedule(rand.New(rand.NewPCG(0, purposeSchedule)), maxDecisions)
	o.Yields = 1 << 30
	s := virtual.New(o)
	n := s.NewProcess("reference")
	ended := s.Run(n, func() {
		want, err = train.Run(n, cfg, train.Options{SaveTo: saveTo, Stop: func() bool { return false },
			Observer: observer{&process{netProcess: netProcess{Process: &virtual.Process{Dead: true}}}}})
	})
	return want, errors.Join(ended, err)
}

// checkOutcome compares a run with the one without faults.
func (c *cluster) checkOutcome(o *Outcome, want *train.Result, err error) error {
	if beyond := errors.As(err, new(*commit.Unrecoverable)); beyond && c.faults.unrecoverable && c.faults.unlimited {
		o.Unrecoverable = true
		return nil
	}
	if err != nil {
		return err
	}
	got := c.jobResult()
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
	case got.ModelDigest != want.ModelDigest:
		return fmt.Errorf("the model kept is %s of %+v, want %s of %+v", got.ModelDigest, got.ModelEval, want.ModelDigest, want.ModelEval)
	case !slices.Equal(got.Eval, want.Eval):
		return fmt.Errorf("evaluations %v, want %v", got.Eval, want.Eval)
	}
	if o.Restored && !c.faults.unrecoverable {
		return errors.New("it restored a checkpoint although the code tolerates the losses")
	}
	for _, x := range c.seen.recoveries {
		if most := maxUncommitted * int64(c.cfg.EC.CommitEvery); x.StepsRedone > most {
			return fmt.Errorf("a recovery repeated %d steps, more than %d commit_every = %d: %+v", x.StepsRedone, maxUncommitted, most, x)
		}
	}
	return c.auditor.err
}
