package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// mpiPrograms lists the names under which MPIs are installed, even several on one machine.
var mpiPrograms = []string{"mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra"}

func mpi(ctx context.Context) Check {
	var found []program
	seen := map[string]bool{}
	for _, name := range mpiPrograms {
		p, ok := find(ctx, name, mpiVersion)
		if !ok {
			continue
		}
		real, err := filepath.EvalSymlinks(p.path)
		if err != nil {
			real = p.path
		}
		if !seen[real] {
			seen[real] = true
			found = append(found, p)
		}
	}
	return launcher(found, "no mpirun in PATH; needed only for jobs started by MPI")
}

// mpiVersion parses the output of mpirun --version: "mpirun (Open MPI) 4.1.4", or for MPICH "HYDRA
// build details:" with a line "Version: 4.0.2". Of other output it returns the first line.
func mpiVersion(output string) string {
	first := firstLine(output)
	if _, version, ok := strings.Cut(first, "(Open MPI) "); ok {
		return "Open MPI " + version
	}
	if strings.HasPrefix(first, "HYDRA ") {
		for line := range strings.Lines(output) {
			if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Version:"); ok {
				return "MPICH " + strings.TrimSpace(version)
			}
		}
	}
	return first
}

func slurm(ctx context.Context) Check {
	p, ok := find(ctx, "srun", firstLine)
	var found []program
	if ok {
		found = append(found, p)
	}
	c := launcher(found, "no srun in PATH; needed only for jobs started by Slurm")
	if job := slurmJob(os.Getenv); job != "" {
		c.Value += ", " + job
	}
	return c
}

// slurmJob describes the Slurm job and the node of a process.
func slurmJob(getenv func(string) string) string {
	id, node := getenv("SLURM_JOB_ID"), getenv("SLURMD_NODENAME")
	switch {
	case id == "":
		return ""
	case node == "":
		return "in job " + id
	}
	return "in job " + id + " on node " + node
}

// launcher summarises the programs of one kind.
func launcher(found []program, missing string) Check {
	if len(found) == 0 {
		return Check{Status: Absent, Value: "not found", Detail: missing}
	}
	c := Check{Status: OK}
	for _, p := range found {
		value := p.path
		if p.version != "" {
			value = p.version + " (" + p.path + ")"
		}
		if c.Value != "" {
			value = ", " + value
		}
		c.Value += value
		if p.err != nil {
			c.Status, c.Detail = Warn, join(c.Detail, p.path+" --version: "+p.err.Error())
		}
	}
	return c
}
