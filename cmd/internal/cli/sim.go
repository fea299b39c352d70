package cli

import (
	"fmt"
	"os"
	"sync"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/sim"
)

type simCmd struct {
	Seed    uint64 `default:"1" help:"The first seed."`
	Runs    uint64 `default:"100" help:"Number of seeds to run."`
	Mode    string `enum:",safety,liveness" default:"" placeholder:"MODE" help:"safety: anything may fail; a run must end with the right result or refuse. liveness: never more concurrent failures than the code tolerates; a run must finish. Default: chosen by the seed."`
	Ranks   int    `default:"0" placeholder:"N" help:"Number of ranks of each run. Default: 2 to 9, chosen by the seed."`
	Workers int    `default:"2" help:"Number of simulations to run in parallel."`
}

// simulation sums the runs of several workers.
type simulation struct {
	mu   sync.Mutex // guards the fields below
	next uint64
	end  uint64
	done uint64
	sum  sim.Sum
	live *report.Live
	err  error // the first
}

// Run runs simulated clusters until one fails.
func (c *simCmd) Run(a *app) error {
	if c.Workers < 1 || c.Runs < 1 {
		return errUsage("sim: --workers and --runs must be at least 1")
	}
	if c.Ranks != 0 && c.Ranks < sim.LeastRanks {
		return errUsage(fmt.Sprintf("sim: --ranks must be at least %d", sim.LeastRanks))
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
			for seed, ok := s.nextSeed(a); ok; seed, ok = s.nextSeed(a) {
				o, err := sim.Run(data, seed, sim.Options{Mode: c.Mode, Ranks: c.Ranks})
				s.addOutcome(c, seed, o, err)
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
		fmt.Fprintf(a.out, "to run the rest: ecrec sim%s --seed %d --runs %d\n", c.flags(), s.next, s.end-s.next)
		return errStopped
	}
	fmt.Fprintf(a.out, "to continue: ecrec sim%s --seed %d --runs %d\n", c.flags(), s.next, c.Runs)
	return nil
}

// flags returns the flags that select the same runs of each seed again.
func (c *simCmd) flags() (text string) {
	if c.Mode != "" {
		text = " --mode " + c.Mode
	}
	if c.Ranks > 0 {
		text += fmt.Sprint(" --ranks ", c.Ranks)
	}
	return text
}

// nextSeed returns the next seed. ok is false after the last one, an error, or a stop request.
func (s *simulation) nextSeed(a *app) (seed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.next == s.end || a.stop.isRequested() {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

func (s *simulation) addOutcome(c *simCmd, seed uint64, o *sim.Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	if err != nil && s.err == nil {
		s.live.Line("%v", err)
		s.err = fmt.Errorf("a simulated run failed; reproduce it with: ecrec sim%s --seed %d --runs 1", c.flags(), seed)
	}
	if err == nil {
		s.sum.Add(o)
	}
	s.live.Advance(int64(s.done))
}
