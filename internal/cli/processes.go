package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// joinLimit is how long the workers of a job may take to connect, once all listen.
const joinLimit = time.Minute

// placeFlags say which processes run a job.
type placeFlags struct {
	Np   *int   `name:"np" placeholder:"P" help:"Start P processes on this machine (train: 1, bench collectives: 2). Under mpirun, srun or torchrun these say how many there are."`
	Rdzv string `name:"rdzv" placeholder:"HOST:PORT|FILE" help:"Where the processes of a job meet, in place of what the environment says: HOST:PORT, or a FILE that all of them see."`
}

// jobEnded is the exit code of a job that other processes ran. What there was to
// say has been said.
type jobEnded int

func (jobEnded) Error() string { return "the job has ended" }

// place is where this process stands, one of so many where nothing says how many
// there are. A worker's world goes to a.stop.
func (f placeFlags) place(a *app, processes int) (launcher.Place, error) {
	w, err := launcher.Worker()
	if err != nil {
		return launcher.Place{}, err
	}
	if w != nil {
		a.stop.world = w
		return launcher.Place{Process: w.Process, Processes: len(w.Processes)}, nil
	}
	np := 0
	if f.Np != nil {
		if np = *f.Np; np == 0 {
			return launcher.Place{}, errUsage("--np 0: give a number of processes, 1 at least")
		}
	}
	p, err := launcher.Detect(os.Getenv, np, f.Rdzv)
	if err != nil || np != 0 || !p.Alone() {
		return p, err
	}
	return launcher.Detect(os.Getenv, processes, f.Rdzv)
}

// supervise runs the job in other processes. config is what they must agree on
// beside the command line, but for where they meet.
func (a *app) supervise(p launcher.Place, config []byte, spec launcher.Spec) error {
	a.stop.close() // the launcher hears signals
	same := sha256.Sum256(fmt.Appendf(config, "%q %s", withoutRdzv(a.args), machine.Version()))
	spec.Args, spec.Same, spec.Stdout, spec.Stderr = a.args, hex.EncodeToString(same[:]), a.out, a.errw
	code, err := launcher.Run(p, spec)
	if err != nil {
		return err
	}
	return jobEnded(code)
}

// keep has a supervisor keep its workers' memory. Without it a worker that is started
// again is slower.
func keep(spec *launcher.Spec, cfg *config.Config, p launcher.Place) {
	file, err := arena.Keep()
	if err != nil {
		return
	}
	spec.Keep = file
	rows := train.RowBytes(cfg, p.Processes-spec.Spares)
	others := int64(p.Processes) // whose rows may all be touched later: of this machine, or all where that is not told
	if n := processesHere(os.Getenv); n > 0 {
		others = int64(n)
	}
	if cfg.Job.Device == "cuda" {
		return // rows are not the host's
	}
	// To be given new pages is most of what rebuilding costs, and slows down who trains
	// on the same machine: a spare takes them while it waits.
	spec.Prepare = func(goOn func() bool) {
		_ = arena.Prepare(file, rows, func() bool { // what is not prepared comes later, slower
			available, ok := machine.AvailableMemory()
			return ok && available > (others+1)*rows && goOn()
		})
	}
}

// withoutRdzv is a command line without --rdzv.
func withoutRdzv(args []string) (rest []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--rdzv":
			i++
		case !strings.HasPrefix(args[i], "--rdzv="):
			rest = append(rest, args[i])
		}
	}
	return rest
}

// loadAt loads the config for a job at a place, and says there how many processes run
// it, spares included.
func (f configFlags) loadAt(p *launcher.Place, worker bool) (*config.Config, error) {
	if worker || p.Launch || p.Alone() {
		cfg, err := config.LoadFor(p.Processes, f.Config, f.sets())
		if err == nil && p.Launch {
			p.Processes += cfg.Elastic.Spares
		}
		return cfg, err
	}
	return config.LoadAmong(p.Processes, f.Config, f.sets())
}

// elastic reports whether a job survives the loss of processes.
func elastic(cfg *config.Config) bool { return cfg.EC.Code != "none" }

// spec is what launcher must know of a training job.
func spec(cfg *config.Config) launcher.Spec {
	return launcher.Spec{Ranks: cfg.Job.Ranks, Out: cfg.Job.Out, Spares: cfg.Elastic.Spares, Elastic: elastic(cfg),
		MaxRestarts: cfg.Elastic.MaxRestarts, Heartbeat: time.Duration(cfg.Elastic.Heartbeat)}
}

// follows reports whether a worker's error is the consequence of another's.
func follows(err error) bool {
	var failed failedRun
	if errors.As(err, &failed) {
		err = failed.error
	}
	return train.Follows(err) || errors.Is(err, launcher.ErrChanged) || errors.Is(err, launcher.ErrEnding)
}

// trainWorld is how a worker's ranks reach the others; nil where all are here.
func (s *session) trainWorld() *train.World {
	w := s.world
	switch {
	case s.comm != nil:
		return s.mpiWorld()
	case w == nil:
		return nil
	}
	env.LongSlices(neighbours(w)*max(1, s.cfg.Job.Threads) <= runtime.NumCPU()) // by itself each takes its share of the cores
	t := &train.World{Process: w.Process, Processes: len(w.Processes), Present: present(w), Neighbours: neighbours(w), Join: s.join,
		Hosted: w.Processes[w.Process].Ranks, Trained: w.Trained, Machine: func(rank int) string { return w.Processes[processOf(w, rank)].Host }}
	if !w.LostAt.IsZero() {
		t.LostAgo = max(0, time.Since(w.LostAt))
	}
	if elastic(s.cfg) {
		t.Renew, t.Done, t.Committed = s.renew, s.done, w.Committed
	}
	return t
}

// join connects this worker with the others of its world. All that its ranks do there
// ends when the world changes.
func (s *session) join([]int) ([]transport.Endpoint, error) {
	w := s.world
	o := netOptions(s.env, w, time.Duration(s.cfg.Elastic.Heartbeat))
	o.SharedMemory = s.cfg.Collectives.Transport == "auto" || s.cfg.Collectives.Transport == "nccl"
	type joined struct {
		eps []transport.Endpoint
		err error
	}
	done := make(chan joined, 1)
	go func() {
		eps, err := transport.Join(o)
		w.Listener.Close()
		done <- joined{eps, err}
	}()
	select {
	case j := <-done:
		go func() {
			<-w.Changed()
			for _, ep := range j.eps {
				ep.Abort(launcher.ErrChanged)
			}
		}()
		return j.eps, j.err
	case <-w.Changed():
		w.Listener.Close()
		go func() { // it may wait for a process that is gone
			for _, ep := range (<-done).eps {
				ep.Close()
			}
		}()
		return nil, launcher.ErrChanged
	}
}

// done writes what this process writes of the run, and waits for the others.
func (s *session) done(r *train.Result) (over bool, err error) {
	if s.ended = s.finish(r, s.fault); s.ended != nil {
		return true, s.ended
	}
	if s.over = s.world.Done(); s.over || s.run == nil {
		return s.over, nil
	}
	s.run, err = report.Reopen(s.cfg.Job.Out, s.cfg.Resolved(), s.process)
	if err == nil && s.speaks() && s.process != 0 {
		err = s.run.Adopt(s.cfg.Resolved())
	}
	if err == nil && s.speaks() {
		s.live = report.NewLive(s.app.out, "step", s.info.Steps)
		s.watch()
	}
	return err != nil, err
}

// renew is the world that follows the one that ended with an error here; nil if the
// error is this process's own. What comes up while the world changes may follow from
// that; if not, it comes up again.
func (s *session) renew(err error) *train.World {
	if !s.changed(0) {
		if !follows(err) {
			return nil
		}
		if !s.changed(time.Duration(s.cfg.Elastic.Heartbeat)) { // of a process that died all hear at once
			s.world.Lost(unreached(s.world, err))
		}
	}
	next, err := s.world.Next()
	if err != nil {
		errors.As(err, &s.ending)
		return nil
	}
	s.world = next
	return s.trainWorld()
}

// changed reports whether the world changes within a limit.
func (s *session) changed(limit time.Duration) bool {
	select {
	case <-s.world.Changed():
		return true
	default:
	}
	select {
	case <-s.world.Changed():
		return true
	case <-time.After(limit):
		return false
	}
}

// unreached is the process that an error says is lost.
func unreached(w *launcher.World, err error) int {
	var peer *transport.PeerLost
	var join *transport.JoinError
	switch {
	case errors.As(err, &peer):
		return processOf(w, peer.Rank)
	case errors.As(err, &join):
		return present(w)[join.Process]
	}
	return -1
}

// processOf is the process of a world that hosts a rank.
func processOf(w *launcher.World, rank int) int {
	return slices.IndexFunc(w.Processes, func(p launcher.Process) bool { return slices.Contains(p.Ranks, rank) })
}

// present are the processes of a world that host ranks: those that transport knows.
func present(w *launcher.World) (numbers []int) {
	for i, p := range w.Processes {
		if len(p.Ranks) > 0 {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// neighbours is how many processes of a world share this one's machine.
func neighbours(w *launcher.World) int {
	n := 0
	for _, i := range present(w) {
		if w.Processes[i].Host == w.Processes[w.Process].Host {
			n++
		}
	}
	return n
}

// netOptions are what a worker joins its generation's world with.
func netOptions(e env.Env, w *launcher.World, heartbeat time.Duration) transport.NetOptions {
	here := present(w)
	processes := make([]transport.Process, len(here))
	for i, number := range here {
		p := w.Processes[number]
		processes[i] = transport.Process{Ranks: p.Ranks, Addr: p.Addr, Host: p.Host}
	}
	return transport.NetOptions{Env: e, Generation: w.Generation, Secret: w.Secret, Processes: processes,
		Self: slices.Index(here, w.Process), Listener: w.Listener, Heartbeat: heartbeat, Timeout: joinLimit}
}
