package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// joinLimit is how long the workers of a job may take to connect, once all listen.
const joinLimit = time.Minute

// placeFlags say which processes run a job.
type placeFlags struct {
	Np   *int   `name:"np" placeholder:"P" help:"Start P processes on this machine (train: 1, bench collectives: 2). Under mpirun, srun or torchrun these say how many there are."`
	Rdzv string `name:"rdzv" placeholder:"HOST:PORT" help:"Where the processes of a job meet, in place of what the environment says."`
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
// beside the command line; out is the folder of their logs.
func (a *app) supervise(p launcher.Place, ranks int, config []byte, out string) error {
	a.stop.close() // the launcher hears signals
	same := sha256.Sum256(fmt.Appendf(config, "%q %s", a.args, machine.Version()))
	code, err := launcher.Run(p, launcher.Spec{Ranks: ranks, Out: out, Args: a.args,
		Same: hex.EncodeToString(same[:]), Stdout: a.out, Stderr: a.errw})
	if err != nil {
		return err
	}
	return jobEnded(code)
}

// follows reports whether a worker's error is the consequence of another's.
func follows(err error) bool {
	var failed failedRun
	if errors.As(err, &failed) {
		err = failed.error
	}
	return train.Follows(err)
}

// world is how a worker's ranks reach the others; nil where all are here.
func (s *session) world(w *launcher.World) *train.World {
	if w == nil {
		return nil
	}
	return &train.World{Process: w.Process, Processes: len(w.Processes), Neighbours: neighbours(w),
		Join: func([]int) ([]transport.Endpoint, error) {
			defer w.Listener.Close()
			o := netOptions(s.env, w, time.Duration(s.cfg.Elastic.Heartbeat))
			o.SharedMemory = s.cfg.Collectives.Transport == "auto"
			return transport.Join(o)
		}}
}

// neighbours is how many processes of a world share this one's machine.
func neighbours(w *launcher.World) int {
	n := 0
	for _, p := range w.Processes {
		if p.Host == w.Processes[w.Process].Host {
			n++
		}
	}
	return n
}

// netOptions are what a worker joins its generation's world with.
func netOptions(e env.Env, w *launcher.World, heartbeat time.Duration) transport.NetOptions {
	processes := make([]transport.Process, len(w.Processes))
	for i, p := range w.Processes {
		processes[i] = transport.Process{Ranks: p.Ranks, Addr: p.Addr, Host: p.Host}
	}
	return transport.NetOptions{Env: e, Generation: w.Generation, Secret: w.Secret, Processes: processes,
		Self: w.Process, Listener: w.Listener, Heartbeat: heartbeat, Timeout: joinLimit}
}
