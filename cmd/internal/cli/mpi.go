package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/buildinfo"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/internal/mpi"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/transport"
)

// With collectives.transport = "mpi" the processes that mpirun or srun started are the workers.
// There are no supervisors, so the loss of a process ends the job. A restarted job resumes from
// its newest checkpoint.

// mpiPart is the place of a process in a job over MPI.
type mpiPart struct {
	comm      mpi.Comm // nil: the job does not use MPI
	processes int
	hosts     []string // of the processes, set once they are connected
	near      int      // number of processes on this host
}

// overMPI reports whether a job's processes communicate over MPI.
func overMPI(cfg *config.Config, place place.Place) bool {
	return cfg.Collectives.Transport == "mpi" && !place.IsAlone()
}

// checkMPI returns an error for settings that do not work over MPI.
func (c *trainCmd) checkMPI(cfg *config.Config, place place.Place) error {
	const what = `collectives.transport = "mpi"`
	switch {
	case place.Launch:
		return errUsage(what + `: MPI starts the processes: mpirun -np N ecrec train CONFIG; to use --np, set transport "auto"`)
	case elastic(cfg):
		return config.Errorf(`ec.code: with %s the loss of a process ends the job, so no rows can be rebuilt; use ec.code = "none" and checkpoint.every, or transport "auto"`, what)
	case len(c.Chaos) > 0:
		return errUsage("--chaos: with " + what + " a fault ends the whole job; use transport \"auto\"")
	}
	return nil
}

// byMPI runs work in this process, connected to the others by MPI. Errors name the setting
// that requires MPI.
func (a *app) byMPI(setting string, place place.Place, work func(comm mpi.Comm) error) (err error) {
	comm, err := mpi.Init()
	if err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	defer func() {
		if err == nil || errors.Is(err, errStopped) {
			mpi.Finalize()
			return
		}
		if !isConsequence(err) { // else another process reports the cause
			fmt.Fprintln(a.errw, "ecrec: "+oneLine(err))
		}
		waitUntilRead(os.Stdout, os.Stderr)
		mpi.Abort(a.exitCode(err))
	}()
	if comm.Size() != place.Processes || comm.Rank() != place.Process {
		return fmt.Errorf("by %s this is process %d of %d, by MPI %d of %d: this binary was built for %s; start it with the mpirun of that library",
			place.From, place.Process, place.Processes, comm.Rank(), comm.Size(), mpi.Library())
	}
	return work(comm)
}

// trainByMPI trains in this process, connected to the others by MPI.
func (c *trainCmd) trainByMPI(a *app, cfg *config.Config, place place.Place, rebuildRows int) error {
	return a.byMPI(`collectives.transport = "mpi"`, place, func(comm mpi.Comm) error {
		near := processesHere(os.Getenv)
		switch {
		case near == 0 && place.OneHost:
			near = place.Processes
		case near == 0:
			near = 1
		}
		s := a.newSession(cfg, place, mpiPart{comm: comm, processes: comm.Size(), near: near}, rebuildRows)
		if s.isReporter() {
			fmt.Fprintf(s.console.visible, "%s: the loss of a process ends the job; restart it with --resume auto\n", mpi.Library())
			if near < comm.Size() && cfg.Job.Secure != "off" {
				fmt.Fprintf(s.console.visible, "job.secure: traffic of %s between hosts is not encrypted; set collectives.transport = \"auto\" to encrypt it\n", mpi.Library())
			}
		}
		result, err := c.trainHere(s, nil)
		return s.closeSession(result, err)
	})
}

// mpiWorld returns the connections of this process's ranks to the others.
func (s *session) mpiWorld() *train.World {
	ranks := make([][]int, s.processes)
	for r := range s.cfg.Job.Ranks {
		ranks[r%s.processes] = append(ranks[r%s.processes], r)
	}
	return &train.World{Process: s.process, Processes: s.processes, Neighbours: s.near,
		Join: func([]int) ([]transport.Endpoint, error) {
			o := s.app.mpiOptions(s.comm, ranks, s.cfg.Resolved(), time.Duration(s.cfg.Elastic.Heartbeat))
			o.OnJoin = func(hosts []string) { s.hosts = hosts }
			return transport.JoinMPI(o)
		}}
}

// mpiOptions returns the options to connect over MPI. All processes must have the same config
// and command line.
func (a *app) mpiOptions(comm mpi.Comm, ranks [][]int, config []byte, beat time.Duration) transport.MPIOptions {
	host, _ := os.Hostname()
	same := sha256.Sum256(fmt.Appendf(config, "%q %s", a.args, buildinfo.Read().String()))
	return transport.MPIOptions{Env: env.Real(), Comm: comm, Ranks: ranks, Host: host,
		Same: hex.EncodeToString(same[:]), Heartbeat: beat, Silence: heartbeat.Limit(beat, false), Timeout: joinLimit}
}

// processesHere returns the number of the job's processes on this host, from the variables of
// their launcher; 0 if it sets none.
func processesHere(env func(string) string) int {
	for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"} {
		if n, err := strconv.Atoi(env(name)); err == nil && n > 0 {
			return n
		}
	}
	return 0
}
