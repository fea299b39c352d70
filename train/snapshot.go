package train

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// snapshot is a copy of the dense part of the model at the end of a step.
type snapshot struct {
	step           int64
	weights, state kernels.Buffer
}

// snapshots are those of the commits that a rank may have to roll back to. Memory of
// dropped snapshots is reused.
type snapshots struct {
	env    env.Env
	dev    kernels.Device
	stream kernels.Stream

	kept  []snapshot // oldest first
	spare []snapshot // memory to reuse
	took  time.Duration
}

// take copies the dense weights and their optimizer state at the end of a step. A second
// snapshot of the same step is not taken.
func (s *snapshots) take(step int64, weights, state kernels.Buffer) error {
	if n := len(s.kept); n > 0 && s.kept[n-1].step == step {
		return nil
	}
	x, err := s.alloc(weights.Bytes(), state.Bytes())
	if err != nil {
		return err
	}
	x.step = step
	began := s.env.Now()
	s.stream.Copy(x.weights, weights)
	s.stream.Copy(x.state, state)
	s.kept = append(s.kept, x)
	err = s.stream.Sync()
	s.took += s.env.Now() - began
	return err
}

// alloc returns a snapshot with memory: a spare one's, or new memory.
func (s *snapshots) alloc(weights, state int) (x snapshot, err error) {
	if n := len(s.spare); n > 0 {
		x, s.spare = s.spare[n-1], s.spare[:n-1]
		return x, nil
	}
	for _, b := range []struct {
		to    *kernels.Buffer
		bytes int
	}{{&x.weights, weights}, {&x.state, state}} {
		if b.bytes == 0 {
			continue
		}
		if *b.to, err = s.dev.Alloc(b.bytes, kernels.Working); err != nil {
			s.release(x)
			return snapshot{}, err
		}
	}
	return x, nil
}

// at returns the snapshot of a step, nil if there is none.
func (s *snapshots) at(step int64) (found *snapshot) {
	for i := range s.kept {
		if s.kept[i].step == step {
			found = &s.kept[i]
		}
	}
	return found
}

// dropBefore drops the snapshots that are older than the commit of a step.
func (s *snapshots) dropBefore(step int64) {
	kept := s.kept[:0]
	for _, x := range s.kept {
		if x.step >= step {
			kept = append(kept, x)
		} else {
			s.spare = append(s.spare, x)
		}
	}
	s.kept = kept
}

// dropAll drops all snapshots.
func (s *snapshots) dropAll() {
	s.spare = append(s.spare, s.kept...)
	s.kept = s.kept[:0]
}

// count is the number of snapshots that have memory, spare ones included.
func (s *snapshots) count() int { return len(s.kept) + len(s.spare) }

// bytes is their memory.
func (s *snapshots) bytes() (n int) {
	for _, list := range [][]snapshot{s.kept, s.spare} {
		for _, x := range list {
			n += x.weights.Bytes() + x.state.Bytes()
		}
	}
	return n
}

// free frees all memory.
func (s *snapshots) free() {
	s.dropAll()
	for _, x := range s.spare {
		s.release(x)
	}
	s.spare = nil
}

// release frees the memory of one snapshot.
func (s *snapshots) release(x snapshot) {
	for _, b := range []kernels.Buffer{x.weights, x.state} {
		if b.Bytes() > 0 {
			s.dev.Free(b)
		}
	}
}
