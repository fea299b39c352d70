package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
)

// saves are the checkpoints of a run.
type saves struct {
	dir   string   // empty: there are none
	sets  []string // config keys and values
	rows  int      // that are copied after each step
	pause bool     // training waits for each save
	// full draws which operations find the disk full, until the step last, so that the last save succeeds. Nil: none do.
	full *rand.Rand
	last int64
}

// drawSaving draws how a run saves.
func (s *setting) drawSaving(r *rand.Rand) {
	s.saves.rows, s.saves.pause = 1+r.IntN(1+r.IntN(2000)), r.IntN(3) == 0
	if r.IntN(3) == 0 && !slices.ContainsFunc(s.exact, func(set string) bool { return strings.HasPrefix(set, "train.patience=") }) {
		s.saves.full = rand.New(rand.NewPCG(r.Uint64(), purposeDisk))
	}
}

// savingSteps is how many more steps than others a run has that saves beside training: a save takes some of them, and
// a fault ends it.
const savingSteps = 25

// drawSaves draws whether a run saves, and when, to a folder in dir.
func (s *setting) drawSaves(r *rand.Rand, seed uint64, dir string) *saves {
	every := 0
	switch {
	case s.focus == Restores:
		every = 1
	case s.safety && r.IntN(2) == 0:
		every = 1 + r.IntN(8)
	case !s.safety && seed%3 == 0: // not drawn, so that the faults of every seed stay the same
		every = 1 + int(seed/3%8)
	default:
		s.saves = saves{}
		return &s.saves
	}
	s.saves.dir, s.saves.last = filepath.Join(dir, fmt.Sprint("checkpoints-", seed)), s.steps/2
	s.saves.sets = []string{"checkpoint.dir=" + s.saves.dir, fmt.Sprint("checkpoint.every=", every), "checkpoint.keep=2"}
	if s.saves.rows%2 == 0 { // not drawn, as above
		s.saves.sets = append(s.saves.sets, "checkpoint.kind=incremental")
	}
	if !s.saves.pause {
		at := slices.Index(s.exact, fmt.Sprint("train.iterations=", s.steps))
		s.exact[at] = fmt.Sprint("train.iterations=", s.steps+savingSteps)
	}
	return &s.saves
}

// String describes the saves in a failure report.
func (s *saves) String() string {
	if s.dir == "" {
		return "no checkpoints"
	}
	return fmt.Sprintf("checkpoints %v (paused %t, %d rows copied per step, disk full at times %t)", s.sets[1:], s.pause, s.rows,
		s.full != nil)
}

// diskWork are the beginnings of the names of operations of a save (env.Env.Do).
var diskWork = []string{"begin checkpoint", "create ", "write ", "close ", "commit checkpoint"}

// fail returns the error of an operation that finds the disk full, after a step.
func (s *saves) fail(what string, step int64) error {
	if s.full == nil || step >= s.last {
		return nil
	}
	for _, work := range diskWork {
		of := strings.HasSuffix(work, "checkpoint") || strings.Contains(what, ".tmp-") // not of a model, nor of a file that is read
		if strings.HasPrefix(what, work) && of && s.full.IntN(20) == 0 {
			return unix.ENOSPC
		}
	}
	return nil
}

// check checks that each checkpoint that is there is complete, and of one step: its digest, if it has one, is that of the commit
// of that step. Nothing else may be there, except an empty folder of a save whose process thawed after its job had
// ended: the next save of the run removes it. It returns how many there are.
func (s *saves) check(frozen bool) (n int, err error) {
	if s.dir == "" {
		return 0, nil
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if strings.Contains(e.Name(), ".tmp-") {
			if files, err := os.ReadDir(filepath.Join(s.dir, e.Name())); frozen && err == nil && len(files) == 0 {
				continue
			}
			return n, fmt.Errorf("%s is left of a save", e.Name())
		}
		c, err := checkpoint.Open(env.Real(), filepath.Join(s.dir, e.Name()))
		if err != nil {
			return n, err
		}
		got, bad := c.Verify()
		if err := errors.Join(bad...); err != nil {
			return n, err
		}
		if c.Digest != "" && got.String() != c.Digest {
			return n, fmt.Errorf("%s has digest %v, and the commit of its step has %s", e.Name(), got, c.Digest)
		}
		n++
	}
	return n, nil
}
