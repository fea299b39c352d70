package place

import (
	"strconv"

	"github.com/ecrec/ecrec/launcher/control"
)

// Detect finds this process's place in its environment, the value of --np (0: not given) and
// that of --rdzv (host:port or a file; it overrides the environment's rendezvous). Its errors
// are ErrPlace.
func Detect(env func(string) string, np int, rdzv string) (Place, error) {
	if np < 0 || np > control.MaxProcesses {
		return Place{}, Errorf("--np %d: give a number of processes between 1 and %d", np, control.MaxProcesses)
	}
	if err := checkRdzv(rdzv); err != nil {
		return Place{}, err
	}
	for _, e := range environments {
		if env(e.size) == "" || e.name == "Slurm" && !isSlurmStep(env) {
			continue
		}
		p, err := e.readPlace(env)
		if err != nil {
			return Place{}, err
		}
		if e.name == "Slurm" && p.Processes == 1 && np > 1 {
			break // an interactive shell is a step of one task; processes may be started in it
		}
		if np != 0 && np != p.Processes && env(EnvControl) == "" { // ecrec's own launcher has started spares too
			return Place{}, Errorf("--np %d disagrees with the environment: %s=%s (%s) means %d processes; leave --np out, or unset %s to start processes on this machine only",
				np, e.size, env(e.size), e.name, p.Processes, e.size)
		}
		if p.IsAlone() {
			return p, nil
		}
		return p, e.meet(env, &p, rdzv)
	}
	if rdzv != "" && np == 0 {
		return Place{}, Errorf("--rdzv %s: this process has no number; give --np P to start P here, or start it with mpirun, srun or torchrun",
			rdzv)
	}
	if isFile(rdzv) {
		return Place{}, Errorf("--rdzv %s: the processes of --np meet on this machine; leave it out", rdzv)
	}
	return Place{Processes: max(np, 1), From: "--np", Launch: np > 1, OneHost: true, Rendezvous: parseRdzv(rdzv)}, nil
}

// readPlace reads the numbers from an environment's variables.
func (e *environment) readPlace(env func(string) string) (Place, error) {
	size, err := strconv.Atoi(env(e.size))
	if err != nil || size < 1 || size > control.MaxProcesses {
		return Place{}, Errorf("%s=%s: want a number of processes between 1 and %d", e.size, env(e.size), control.MaxProcesses)
	}
	process, err := strconv.Atoi(env(e.process))
	if err != nil || process < 0 || process >= size {
		return Place{}, Errorf("%s=%s: want this process's number, 0 to %d, as %s=%d is set; unset both if no launcher set them",
			e.process, env(e.process), size-1, e.size, size)
	}
	return Place{Process: process, Processes: size, From: e.name, Started: e.started}, nil
}
