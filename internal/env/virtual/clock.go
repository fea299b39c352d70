package virtual

import (
	"errors"
	"math/rand/v2"

	"github.com/ecrec/ecrec/internal/env"
)

// NewClock returns a scheduler that delays no task. The seed chooses the order of tasks that are ready at one moment, and
// nothing else.
func NewClock(seed uint64) *Scheduler { return New(Options{Draw: rand.New(rand.NewPCG(seed, 0))}) }

// Run calls f with an Env in virtual time, and returns when all of its tasks have ended. The error is that of f, that of the run,
// or both: after an error of f, tasks that it left may wait for ever.
func Run(seed uint64, f func(e env.Env) error) error {
	s := NewClock(seed)
	p := s.NewProcess("virtual")
	var failed error
	err := s.Run(p, func() { failed = f(p) })
	return errors.Join(failed, err)
}
