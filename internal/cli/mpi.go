package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/mpi"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// With collectives.transport = "mpi" the processes that mpirun or srun started are the
// workers: MPI knows no other. Nobody supervises them, so a lost one ends the job, which
// goes on from its newest checkpoint when it is started again.

// mpiPart is a process's place among those of MPI.
type mpiPart struct {
	comm      mpi.Comm // nil: the job does without MPI
	processes int
	near      int // processes of this machine
}

// overMPI reports whether a job's processes talk by MPI.
func overMPI(cfg *config.Config, place launcher.Place) bool {
	return cfg.Collectives.Transport == "mpi" && !place.Alone()
}

// checkMPI refuses what MPI cannot do.
func (c *trainCmd) checkMPI(cfg *config.Config, place launcher.Place) error {
	const what = `collectives.transport = "mpi"`
	switch {
	case place.Launch:
		return errUsage(what + `: MPI starts the processes: mpirun -np N ecrec train CONFIG; for --np take transport "auto"`)
	case elastic(cfg):
		return config.Errorf(`ec.code: with %s the loss of a process ends the job, and nothing could be decoded; use ec.code = "none" and checkpoint.every, or transport "auto"`, what)
	case len(c.Chaos) > 0:
		return errUsage("--chaos: with " + what + " nobody survives a fault; use transport \"auto\"")
	}
	return nil
}

// byMPI has this process do its part of work among those that MPI connects. what names the
// setting that asks for it.
func (a *app) byMPI(what string, place launcher.Place, work func(comm mpi.Comm) error) (err error) {
	comm, err := mpi.Init()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() {
		if err == nil || errors.Is(err, errStopped) {
			mpi.Finalize()
			return
		}
		if !follows(err) { // else another process says what
			fmt.Fprintln(a.errw, "ecrec: "+oneLine(err))
		}
		untilRead(os.Stdout, os.Stderr)
		mpi.Abort(a.exitCode(err))
	}()
	if comm.Size() != place.Processes || comm.Rank() != place.Process {
		return fmt.Errorf("%s says process %d of %d, MPI %d of %d: this binary was built for %s; start it with that one's mpirun",
			place.From, place.Process, place.Processes, comm.Rank(), comm.Size(), mpi.Library())
	}
	return work(comm)
}

// trainByMPI is a process's part in a job.
func (c *trainCmd) trainByMPI(a *app, cfg *config.Config, place launcher.Place, repairRows int) error {
	return a.byMPI(`collectives.transport = "mpi"`, place, func(comm mpi.Comm) error {
		near := processesHere(os.Getenv)
		switch {
		case near == 0 && place.OneHost:
			near = place.Processes
		case near == 0:
			near = 1
		}
		s := a.newSession(cfg, place, mpiPart{comm, comm.Size(), near}, repairRows)
		if s.speaks() {
			fmt.Fprintf(s.out, "%s: the loss of a process ends the job; start it again with --resume auto\n", mpi.Library())
		}
		result, err := c.train(s, nil)
		if err != nil {
			return err
		}
		return s.tell(result)
	})
}

// mpiWorld is how this process's ranks reach the others.
func (s *session) mpiWorld() *train.World {
	ranks := make([][]int, s.processes)
	for r := range s.cfg.Job.Ranks {
		ranks[r%s.processes] = append(ranks[r%s.processes], r)
	}
	return &train.World{Process: s.process, Processes: s.processes, Neighbours: s.near,
		Join: func([]int) ([]transport.Endpoint, error) {
			return transport.JoinMPI(s.app.mpiOptions(s.comm, ranks, s.cfg.Resolved(), time.Duration(s.cfg.Elastic.Heartbeat)))
		}}
}

// mpiOptions are what a process joins the others of MPI with. config is what they must agree
// on beside the command line.
func (a *app) mpiOptions(comm mpi.Comm, ranks [][]int, config []byte, heartbeat time.Duration) transport.MPIOptions {
	host, _ := os.Hostname()
	same := sha256.Sum256(fmt.Appendf(config, "%q %s", a.args, machine.Version()))
	return transport.MPIOptions{Env: env.Real(), Comm: comm, Ranks: ranks, Host: host,
		Same: hex.EncodeToString(same[:]), Heartbeat: heartbeat, Timeout: joinLimit}
}

// processesHere is how many of the processes are on this machine, as whoever started
// them tells; 0 where nobody does.
func processesHere(env func(string) string) int {
	for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"} {
		if n, err := strconv.Atoi(env(name)); err == nil && n > 0 {
			return n
		}
	}
	return 0
}
