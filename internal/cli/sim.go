package cli

import (
	"fmt"
	"os"
	"sync"

	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/sim"
)

type simCmd struct {
	Seed    uint64 `default:"1" help:"The first seed."`
	Runs    uint64 `default:"100" help:"How many seeds to run, one after the other."`
	Mode    string `enum:",safety,liveness" default:"" help:"safety: anything may fail, and a run ends with the right result or is refused. liveness: no more fails at a time than is to be borne, and a run must finish. Default: the seed's."`
	Workers int    `default:"2" help:"How many run at a time."`
}

// simulation adds up runs of several workers.
type simulation struct {
	mu   sync.Mutex // guards what follows
	next uint64
	end  uint64
	done uint64
	sum  sim.Sum
	live *report.Live
	err  error // the first
}

// Run runs simulated clusters until one goes wrong.
func (c *simCmd) Run(a *app) error {
	if c.Workers < 1 || c.Runs < 1 {
		return errUsage("sim: --workers and --runs must be at least 1")
	}
	dir, err := os.MkdirTemp("", "ecrec-sim-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data, err := sim.NewData(dir)
	if err != nil {
		return err
	}
	s := &simulation{next: c.Seed, end: c.Seed + c.Runs, live: report.NewLive(a.out, "run", int64(c.Runs))}
	var workers sync.WaitGroup
	for range c.Workers {
		workers.Go(func() {
			for seed, ok := s.take(a); ok; seed, ok = s.take(a) {
				o, err := sim.Run(data, seed, c.Mode)
				s.add(c, seed, o, err)
			}
		})
	}
	workers.Wait()
	s.live.Close()
	if s.err != nil {
		return s.err
	}
	fmt.Fprintf(a.out, "seeds %d to %d: %v\n", c.Seed, s.next-1, &s.sum)
	if s.next < s.end {
		fmt.Fprintf(a.out, "the rest: ecrec sim%s --seed %d --runs %d\n", c.mode(), s.next, s.end-s.next)
		return errStopped
	}
	fmt.Fprintf(a.out, "the next: ecrec sim%s --seed %d --runs %d\n", c.mode(), s.next, c.Runs)
	return nil
}

// mode is how a command asks for the mode again.
func (c *simCmd) mode() string {
	if c.Mode == "" {
		return ""
	}
	return " --mode " + c.Mode
}

// take is the next seed, unless there is an end.
func (s *simulation) take(a *app) (seed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.next == s.end || a.stop.asked() {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

func (s *simulation) add(c *simCmd, seed uint64, o *sim.Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	if err != nil && s.err == nil {
		s.live.Line("%v", err)
		s.err = fmt.Errorf("a simulated run went wrong; once more: ecrec sim%s --seed %d --runs 1", c.mode(), seed)
	}
	if err == nil {
		s.sum.Add(o)
	}
	s.live.Advance(int64(s.done))
}
