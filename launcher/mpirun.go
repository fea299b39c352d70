package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Open MPI's mpirun that has lost a machine, with its daemon there, lets the others go on
// (--enable-recovery), and never returns. Those that it started itself can end it.

// mpirunNames are its names, as /proc/PID/comm has them.
var mpirunNames = []string{"mpirun", "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "orterun", "prterun", "prun"}

// mpirunPatience is how long mpirun has to end by itself, in seconds.
const mpirunPatience = 10

// endMPIRun has mpirun ended, if it started this process, another was lost, and it has not
// ended a while after its job.
func (s *supervisor) endMPIRun() {
	if s.place.From != fromOpenMPI || s.board == nil {
		return
	}
	lost := false
	s.board.view(func(j *job) { lost = slices.ContainsFunc(j.Keepers, func(k keeper) bool { return k.Lost }) })
	parent := os.Getppid()
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if !lost || err != nil || !slices.Contains(mpirunNames, strings.TrimSpace(string(comm))) {
		return
	}
	// By another process, which mpirun knows nothing of: it waits for this one to end.
	c := exec.Command("sh", "-c", fmt.Sprintf("i=0; while kill -0 %[1]d && [ $i -lt %[2]d ]; do sleep 1; i=$((i+1)); done; kill -TERM %[1]d", parent, mpirunPatience))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = c.Start() // without a shell mpirun is somebody else's to end
}
