package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// eachRank creates the ranks of this process and runs life on each, in one world after
// another as long as losses are survived. It returns the first error that is not a
// consequence of another.
func (j *job) eachRank(life func(*rank) error) error {
	held := make([]*rank, j.ranks)
	defer func() {
		for _, r := range held {
			if r != nil {
				r.close()
			}
		}
	}()
	j.noteLoss()
	for {
		j.warnIfCrowded()
		err := j.runWorld(held, life)
		if over, doneErr := j.isOver(err); over {
			return doneErr
		}
		w := j.world.Renew(err)
		if w == nil {
			return err
		}
		j.world, j.hosted = w, w.hostedRanks(j.ranks)
		for id, r := range held {
			if r != nil && !slices.Contains(j.hosted, id) { // it was reassigned to another process
				held[id] = nil
				r.close()
			}
		}
		j.placeAdopted(held)
		j.noteLoss()
	}
}

// isOver reports whether this process's part in the job is over. Err is that of the world.
func (j *job) isOver(err error) (bool, error) {
	switch {
	case err != nil:
		return j.world.Renew == nil, err
	case j.world.Done == nil:
		return true, nil
	}
	j.result.Stopped = j.stopped.Load()
	return j.world.Done(&j.result)
}

// runWorld runs life on the ranks of this process in one world. It creates the ranks that do
// not exist yet and drops those that died.
func (j *job) runWorld(held []*rank, life func(*rank) error) error {
	eps, err := j.world.Join(j.hosted)
	if err != nil {
		return err
	}
	ended := make([]*env.Event, len(eps))
	for i, ep := range eps {
		id := ep.Rank()
		ended[i] = env.NewEvent(j.env, fmt.Sprintf("rank %d", id))
		j.env.Go(fmt.Sprintf("rank %d", id), func() {
			err := j.runRank(&held[id], ep, life)
			ended[i].Set(err)
		})
	}
	var first error
	for _, e := range ended {
		err := e.Wait()
		if first == nil || err != nil && IsConsequence(first) && !IsConsequence(err) {
			first = err
		}
	}
	return first
}

// runRank runs life on one rank.
func (j *job) runRank(held **rank, ep transport.Endpoint, life func(*rank) error) (err error) {
	r := *held
	if r == nil {
		if r, err = newRank(j, ep.Rank()); err != nil {
			ep.Abort(err)
			r.close()
			return err
		}
		*held = r
	}
	r.enterWorld(ep)
	if err = life(r); err != nil {
		j.loss.noticed.set(j.env.Now())
		ep.Abort(err) // before leaveWorld, so that the others receive the reason
	}
	r.leaveWorld()
	if !IsConsequence(err) && errors.As(err, new(*Died)) {
		*held = nil
		r.close()
	}
	return err
}

// placeAdopted places rows again if this process hosts ranks that it did not have before.
func (j *job) placeAdopted(held []*rank) {
	if !slices.ContainsFunc(j.hosted, func(id int) bool { return held[id] == nil }) {
		return
	}
	rows, rest := j.bytesNeeded()
	j.placeRows(rows, rest, func(float64) (room int64, ok bool) {
		room, _, ok = kernels.GPURoom(j.dev, j.world.Neighbours) // this process already uses some of it
		return room, ok
	})
}
