package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// eachRank makes every rank of this process and runs life on each, in one world after
// another where losses are survived. It returns the first error that is not a
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
	j.newWorld()
	for {
		j.tellCrowded()
		err := j.live(held, life)
		if over, doneErr := j.over(err); over {
			return doneErr
		}
		w := j.world.Renew(err)
		if w == nil {
			return err
		}
		j.world, j.hosted = w, w.hosted(j.ranks)
		for id, r := range held {
			if r != nil && !slices.Contains(j.hosted, id) { // another process has it now
				held[id] = nil
				r.close()
			}
		}
		j.placeAdopted(held)
		j.newWorld()
	}
}

// over reports whether this process's part in the job is over, with err or otherwise.
func (j *job) over(err error) (bool, error) {
	switch {
	case err != nil:
		return j.world.Renew == nil, err
	case j.world.Done == nil:
		return true, nil
	}
	j.result.Stopped = j.stopped.Load()
	return j.world.Done(&j.result)
}

// live runs life on the ranks of this process in one world. Who is not held yet is
// made anew; who dies is no longer held.
func (j *job) live(held []*rank, life func(*rank) error) error {
	eps, err := j.world.Join(j.hosted)
	if err != nil {
		return err
	}
	ended := make([]*env.Event, len(eps))
	for i, ep := range eps {
		id := ep.Rank()
		ended[i] = env.NewEvent(j.env, fmt.Sprintf("rank %d", id))
		j.env.Go(fmt.Sprintf("rank %d", id), func() {
			err := j.liveOne(&held[id], ep, life)
			ended[i].Set(err)
		})
	}
	var first error
	for _, e := range ended {
		err := e.Wait()
		if first == nil || err != nil && Follows(first) && !Follows(err) {
			first = err
		}
	}
	return first
}

func (j *job) liveOne(held **rank, ep transport.Endpoint, life func(*rank) error) (err error) {
	r := *held
	if r == nil {
		if r, err = newRank(j, ep.Rank()); err != nil {
			ep.Abort(err)
			r.close()
			return err
		}
		*held = r
	}
	r.enter(ep)
	if err = life(r); err != nil {
		j.noticed.set(j.env.Now())
		ep.Abort(err) // before leave, so that others hear why
	}
	r.leave()
	if !Follows(err) && errors.As(err, new(*Died)) {
		*held = nil
		r.close()
	}
	return err
}
