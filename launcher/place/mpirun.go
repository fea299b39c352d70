package place

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// mpirunNames are the names of Open MPI's mpirun in /proc/PID/comm.
var mpirunNames = []string{"mpirun", "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "orterun", "prterun", "prun"}

// mpirunPatience is how long mpirun has to end by itself, in seconds.
const mpirunPatience = 10

// EndMPIRun ends Open MPI's mpirun if that started this process and outlives it. It is called
// at the end of a job that has lost a process: with --enable-recovery mpirun survives the
// loss of a machine, but then never returns.
func (p Place) EndMPIRun() {
	if p.From != fromOpenMPI {
		return
	}
	parent := os.Getppid()
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || !slices.Contains(mpirunNames, strings.TrimSpace(string(comm))) {
		return
	}
	// A detached process does it, as mpirun waits for this one to end.
	c := exec.Command("sh", "-c", fmt.Sprintf("i=0; while kill -0 %[1]d && [ $i -lt %[2]d ]; do sleep 1; i=$((i+1)); done; kill -TERM %[1]d",
		parent, mpirunPatience))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = c.Start() // without a shell the user has to end mpirun
}
