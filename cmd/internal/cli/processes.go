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

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// joinLimit is how long the workers of a job may take to connect, once all are listening.
const joinLimit = time.Minute

// placeFlags choose the processes of a job.
type placeFlags struct {
	Np   *int   `name:"np" placeholder:"P" help:"Start P processes on this machine (train: 1, bench collectives: 2). Under mpirun, srun or torchrun the launcher sets the number."`
	Rdzv string `name:"rdzv" placeholder:"HOST:PORT|FILE" help:"Rendezvous of the job's processes, instead of the one in the environment: HOST:PORT, or a FILE on a file system that all of them share."`
}

// jobEnded is the exit code of a job that other processes ran. They have printed all messages.
type jobEnded int

func (jobEnded) Error() string { return "the job has ended" }

// leastAddressSpace is the address space that a process needs for its first threads. With 13 MiB
// left the runtime ended the process, with 29 MiB it trained.
const leastAddressSpace = 16 << 20

// checkAddressSpace returns an error if ulimit -v leaves too little for the Go runtime.
func checkAddressSpace() error {
	left, limit, limited := machine.AddressSpaceLeft()
	if !limited || left >= leastAddressSpace {
		return nil
	}
	return config.Errorf("address space: ulimit -v allows %s, of which %s are left, less than the Go runtime needs; raise the limit (ulimit -v unlimited) and limit memory by a cgroup",
		machine.Size(limit), machine.Size(left))
}

// findPlace returns the place of this process in its job. processes is the size of a job for
// which neither flags nor a launcher set one. It stores the world of a worker in a.stop.
// It calls prepare in a standby.
func (f placeFlags) findPlace(a *app, processes int, prepare func(processes int)) (place.Place, error) {
	w, err := launcher.Worker(prepare)
	if err != nil {
		return place.Place{}, err
	}
	if w != nil {
		a.stop.world = w
		return place.Place{Process: w.Process, Processes: len(w.Processes)}, nil
	}
	if err := checkAddressSpace(); err != nil {
		return place.Place{}, err
	}
	np := 0
	if f.Np != nil {
		if np = *f.Np; np == 0 {
			return place.Place{}, errUsage("--np 0: give at least 1 process")
		}
	}
	p, err := place.Detect(os.Getenv, np, f.Rdzv)
	if err != nil || np != 0 || !p.IsAlone() {
		return p, err
	}
	return place.Detect(os.Getenv, processes, f.Rdzv)
}

// supervise runs the job in other processes. All of them must have the same config and the same
// command line, except for --rdzv.
func (a *app) supervise(p place.Place, config []byte, spec launcher.Spec) error {
	a.stop.restoreSignals() // the launcher receives signals
	same := sha256.Sum256(fmt.Appendf(config, "%q %s", withoutRdzv(a.args), buildinfo.Read().String()))
	spec.Args, spec.Same, spec.Stdout, spec.Stderr = a.args, hex.EncodeToString(same[:]), a.out, a.errw
	spec.Print = a.printStatus
	code, err := launcher.Run(p, spec)
	if err != nil {
		return err
	}
	return jobEnded(code)
}

// keepMemory makes a supervisor keep its workers' memory. Without it a restarted worker is slower.
func keepMemory(spec *launcher.Spec, cfg *config.Config, p place.Place) {
	file, err := arena.Keep()
	if err != nil {
		return
	}
	spec.Keep = file
	rows := train.RowBytes(cfg, p.Processes-spec.Spares)
	others := int64(p.Processes) // on this host, if known; all their rows may be touched later
	if n := processesHere(os.Getenv); n > 0 {
		others = int64(n)
	}
	if cfg.Job.Device == "cuda" {
		return // rows are not the host's
	}
	// Page faults are most of the cost of rebuilding, and slow down other processes of the
	// machine. A spare allocates the pages while it waits.
	spec.Prepare = func(isWanted func() bool) {
		_ = arena.Prepare(file, rows, func() bool { // pages that are not prepared are allocated later, slower
			available, ok := machine.AvailableMemory()
			return ok && available > (others+1)*rows && isWanted()
		})
	}
}

// withoutRdzv returns a command line without --rdzv.
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

// loadAt loads the config for a job at a place. For our own launcher it adds the spares to the
// number of processes.
func (f configFlags) loadAt(p *place.Place, worker bool) (*config.Config, error) {
	if worker || p.Launch || p.IsAlone() {
		cfg, err := config.LoadFor(p.Processes, f.Config, f.allSets())
		if err == nil && p.Launch {
			p.Processes += cfg.Elastic.Spares
		}
		return cfg, err
	}
	return config.LoadAmong(p.Processes, f.Config, f.allSets())
}

// elastic reports whether a job survives the loss of processes.
func elastic(cfg *config.Config) bool { return cfg.EC.Code != "none" }

// silence returns how long a process may be silent before it counts as lost.
func silence(cfg *config.Config) time.Duration {
	return heartbeat.Limit(time.Duration(cfg.Elastic.Heartbeat), elastic(cfg))
}

// jobSpec returns the launcher's description of a training job.
func jobSpec(cfg *config.Config) launcher.Spec {
	return launcher.Spec{Ranks: cfg.Job.Ranks, Out: cfg.Job.Out, Spares: cfg.Elastic.Spares, Elastic: elastic(cfg),
		MaxRestarts: cfg.Elastic.MaxRestarts, Heartbeat: time.Duration(cfg.Elastic.Heartbeat),
		Standby: cfg.Elastic.Standby}
}

// reportTo reports to the supervisors why this process fails.
func (a *app) reportTo(world *launcher.World, err error) {
	world.Report(control.Report{Code: a.exitCode(err), Error: oneLine(err), Stopped: errors.Is(err, errStopped), IsConsequence: isConsequence(err)})
}

// isConsequence reports whether a worker's error is the consequence of another worker's failure.
func isConsequence(err error) bool {
	var failed failedRun
	if errors.As(err, &failed) {
		err = failed.error
	}
	return train.IsConsequence(err) || errors.Is(err, launcher.ErrChanged) || errors.Is(err, launcher.ErrEnding)
}

// trainWorld returns the connections of a worker's ranks to the others, nil if this process
// hosts all ranks.
func (s *session) trainWorld() *train.World {
	w := s.world
	switch {
	case s.comm != nil:
		return s.mpiWorld()
	case w == nil:
		return nil
	}
	cores := shareOfCores(w)
	env.LongSlices(float64(max(1, s.cfg.Job.Threads)) <= cores)
	broken := new(train.Broken)
	go func() {
		<-w.Changed()
		broken.Set(launcher.ErrChanged)
	}()
	t := &train.World{Broken: broken, Process: w.Process, Processes: len(w.Processes), Present: present(w), Neighbours: neighbours(w), Cores: cores, Join: s.joinWorld,
		Hosted: w.Processes[w.Process].Ranks, Later: w.Generation > 1, Trained: w.Trained,
		Machine: func(rank int) string { return w.Processes[processOf(w, rank)].Host }}
	if !w.LostAt.IsZero() {
		t.LostAgo = max(0, time.Since(w.LostAt))
	}
	if elastic(s.cfg) {
		t.Renew, t.Done, t.Committed = s.nextWorld, s.finishPart, w.Committed
	}
	return t
}

// joinWorld connects this worker to the others of its world. When the world changes, the
// connections are aborted.
func (s *session) joinWorld([]int) ([]transport.Endpoint, error) {
	w := s.world
	o := netOptions(s.env, w, time.Duration(s.cfg.Elastic.Heartbeat))
	o.Silence = heartbeat.Doubled(silence(s.cfg), w.Doubts)
	o.Secure = secureOf[s.cfg.Job.Secure]
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
		if j.err == nil && s.folder.run != nil && w.Generation > 1 {
			s.folder.run.Log().Info().Uint64("generation", w.Generation).Msg("joined")
		}
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

// finishPart writes the output of this process and waits for the others. It returns false if the
// process is needed again, after a loss.
func (s *session) finishPart(r *train.Result) (over bool, err error) {
	if s.ended = s.finishRun(r, s.fault); s.ended != nil {
		return true, s.ended
	}
	if s.over = s.world.Done(); s.over || s.folder.run == nil {
		return s.over, nil
	}
	err = s.folder.openFolder(s.process)
	if err == nil && s.isReporter() {
		err = s.beginFiles(true)
	}
	if err == nil && s.isReporter() {
		s.console.showSteps(s.info.Steps)
		s.metrics.watchGPU(s.info, s.folder.run)
	}
	return err != nil, err
}

// nextWorld returns the world that replaces the one in which err occurred. It returns nil if the
// error is this process's own. An error while the world changes may be a consequence of the
// change; if it is not, it occurs again in the next world.
func (s *session) nextWorld(err error) *train.World {
	if s.folder.run != nil && errors.Is(err, transport.ErrForged) { // the job recovers, and the log has the reason
		s.folder.run.Log().Warn().Str("error", oneLine(err)).Msg("a connection was tampered with")
	}
	if !s.worldChanges(0) {
		if !isConsequence(err) {
			return nil
		}
		if !s.worldChanges(time.Duration(s.cfg.Elastic.Heartbeat)) { // the death of a process changes it at once
			s.world.Lost(unreached(s.world, err))
		}
	}
	next, nextErr := s.world.Next()
	if nextErr != nil {
		errors.As(nextErr, &s.ending)
		return nil
	}
	s.world = next
	s.beginRecovery()
	if s.folder.run != nil {
		s.folder.run.Log().Info().Uint64("generation", next.Generation).Str("after", endOfWorld(err)).Msg("generation")
	}
	if !s.isReporter() {
		s.metrics.exporter.Moved()
	}
	return s.trainWorld()
}

// worldChanges reports whether the world changes within a limit.
func (s *session) worldChanges(limit time.Duration) bool {
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

// unreached returns the process that is lost according to an error, -1 if there is none.
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

// processOf returns the process of a world that hosts a rank.
func processOf(w *launcher.World, rank int) int {
	return slices.IndexFunc(w.Processes, func(p control.Process) bool { return slices.Contains(p.Ranks, rank) })
}

// present returns the processes of a world that host ranks. Package transport connects these.
func present(w *launcher.World) (numbers []int) {
	for i, p := range w.Processes {
		if len(p.Ranks) > 0 {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// neighbours returns the number of processes of a world on this process's host, itself included.
func neighbours(w *launcher.World) int {
	n := 0
	for _, i := range present(w) {
		if w.Processes[i].Host == w.Processes[w.Process].Host {
			n++
		}
	}
	return n
}

// shareOfCores returns this process's share of the cores of its host. A launcher may have bound processes to cores.
func shareOfCores(w *launcher.World) float64 {
	if n := runtime.GOMAXPROCS(0); n < runtime.NumCPU() { // a quota, or a limit by the user, for all of them
		return float64(n) / float64(neighbours(w))
	}
	var others []int
	for _, i := range present(w) {
		if p := &w.Processes[i]; i != w.Process && p.Host == w.Processes[w.Process].Host {
			others = append(others, p.PID)
		}
	}
	return env.ShareOfCores(others)
}

// secureOf translates job.secure for package transport.
var secureOf = map[string]transport.Secure{"auto": transport.SecureAuto, "on": transport.SecureOn, "off": transport.SecureOff}

// netOptions returns the options to connect a worker to its world.
func netOptions(e env.Env, w *launcher.World, beat time.Duration) transport.NetOptions {
	here := present(w)
	processes := make([]transport.Process, len(here))
	for i, number := range here {
		p := w.Processes[number]
		processes[i] = transport.Process{Ranks: p.Ranks, Addr: p.Addr, Host: p.Host}
	}
	return transport.NetOptions{Env: e, Generation: w.Generation, Secret: w.Secret, Processes: processes,
		Self: slices.Index(here, w.Process), Listener: w.Listener, Heartbeat: beat, Timeout: joinLimit, Cores: shareOfCores(w)}
}

// endOfWorld describes the end of a world. A rank that was done is needed again if another one is lost: its world has no error.
func endOfWorld(err error) string {
	if err == nil {
		return "the last step"
	}
	return oneLine(err)
}
