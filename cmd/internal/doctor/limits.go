package doctor

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/machine"
)

// The limits that a process should have.
const (
	filesWanted     = 4096 // a socket per peer and stream, and files of data and checkpoints
	processesWanted = 4096
)

// unlimitedFrom is below RLIM_INFINITY of all systems, which differ.
const unlimitedFrom = 1 << 62

func count(n uint64) string {
	if n >= unlimitedFrom {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

func openFiles(n uint64, err error) Check {
	if err != nil {
		return unknown(err)
	}
	c := Check{Status: OK, Value: count(n)}
	if n < filesWanted {
		c.Status, c.Detail = Warn, fmt.Sprintf("jobs of many processes need %d open files; raise the hard limit (ulimit -Hn, limits.conf, LimitNOFILE of slurmd)", filesWanted)
	}
	return c
}

// lockedMemory matters if MPI and NCCL register memory with RDMA devices.
func lockedMemory(n uint64, err error, devices int) Check {
	if err != nil {
		return unknown(err)
	}
	c := Check{Status: OK, Value: "unlimited"}
	if n < unlimitedFrom {
		c.Value = machine.Size(int64(n))
		if devices > 0 {
			c.Status = Warn
			c.Detail = fmt.Sprintf("MPI and NCCL lock memory for the %d RDMA devices; raise the limit (ulimit -l unlimited, limits.conf, LimitMEMLOCK of slurmd)", devices)
		}
	}
	return c
}

// processes checks the limit per user and that of the cgroup; tasks = 0: the cgroup has none.
func processes(n uint64, err error, tasks int64) Check {
	if err != nil {
		return unknown(err)
	}
	c := Check{Status: OK, Value: count(n)}
	if tasks > 0 && uint64(tasks) < n {
		n = uint64(tasks)
		c.Value += fmt.Sprintf(", cgroup limit %d", tasks)
	}
	if n < processesWanted {
		c.Status, c.Detail = Warn, fmt.Sprintf("jobs may need %d processes and threads; raise the limit (ulimit -u, limits.conf, pids.max of the cgroup)", processesWanted)
	}
	return c
}

func unknown(err error) Check {
	return Check{Status: Absent, Value: "unknown", Detail: err.Error()}
}
