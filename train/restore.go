package train

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
)

// joinRestore restores a checkpoint in a world where some ranks began to do so in the world
// before. They send the reason to the new ranks.
func (p *protection) joinRestore() error {
	r := p.rank
	var mine []byte
	if p.phase == phaseRestoring {
		var err error
		if mine, err = json.Marshal(p.fatal); err != nil {
			return err
		}
	}
	all, err := r.conns.ctl.gather([]uint64{uint64(len(mine))})
	if err != nil {
		return err
	}
	root := slices.IndexFunc(all, func(w []uint64) bool { return w[0] > 0 })
	if r.id != root {
		mine = make([]byte, all[root][0])
	}
	if err := r.conns.ctl.comm.Broadcast(kernels.HostBuffer(mine), root).Wait(); err != nil {
		return err
	}
	fatal := new(commit.Unrecoverable)
	if err := json.Unmarshal(mine, fatal); err != nil {
		return fmt.Errorf("train: the reason of rank %d to restore a checkpoint: %w", root, err)
	}
	return p.restoreFromCheckpoint(fatal)
}

// restoreFromCheckpoint restores the newest checkpoint of the run, since more was lost than
// the code can rebuild.
func (p *protection) restoreFromCheckpoint(fatal *commit.Unrecoverable) error {
	r := p.rank
	none := fmt.Errorf("%w; there is no checkpoint to restore: set checkpoint.dir or store.path, or a larger ec.r", fatal)
	if r.job.cfg.Checkpoint.Dir == "" && !r.job.stores() && r.job.o.Restore == nil {
		return none
	}
	p.phase, p.fatal = phaseRestoring, fatal // until all ranks have restored it
	if err := p.commits.Clear(); err != nil {
		return err
	}
	if err := r.probe.Reach(r.done, probe.Restore); err != nil {
		return err
	}
	r.shard.Reset()
	p.recovery = openRecovery{}
	r.intake.noteUndone(r.history.Input, 0)
	r.done, r.checkpoints.saved, r.evaluated, r.history = 0, 0, 0, history{}
	resumed, err := r.resumeOwn()
	if err != nil {
		return err
	}
	if !resumed {
		return none
	}
	if r.id == 0 {
		from := "a checkpoint"
		if p.isStored() {
			from = "the logs of store.path"
		}
		r.job.o.Observer.Warned(fmt.Sprintf("%v: resuming after step %d from %s", fatal, r.done, from))
	}
	if err := r.probe.Reach(r.done, probe.Restored); err != nil {
		return err
	}
	if err := p.beginCommits(); err != nil {
		return err
	}
	p.phase = phaseTraining
	return nil
}
