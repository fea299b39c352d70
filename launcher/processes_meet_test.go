package launcher

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Processes of other launchers find each other.
func TestPlacesFromTheEnvironment(t *testing.T) {
	secret := "ECREC_SECRET=00112233445566778899"
	port := freePort(t)
	for name, vars := range map[string][]string{
		"torchrun's, one host": {"RANK=%d", "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)},
		"torchrun's, over tcp": {"RANK=%d", "WORLD_SIZE=3", "TEST_RDZV=127.0.0.1:" + port, secret},
		"Open MPI's": {"OMPI_COMM_WORLD_RANK=%d", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE=3",
			fmt.Sprintf("PMIX_NAMESPACE=%d", os.Getpid())},
		"Slurm's": {"SLURM_PROCID=%d", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=1",
			fmt.Sprintf("SLURM_JOB_ID=%d", os.Getpid())},
		"Slurm's, on some nodes": {"SLURM_PROCID=%d", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=3",
			"SLURM_STEP_NODELIST=localhost,b,c", fmt.Sprintf("SLURM_JOB_ID=%d", os.Getpid()), secret},
		"Slurm's, without a secret": {"SLURM_PROCID=%d", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=3",
			"SLURM_STEP_NODELIST=unknown.invalid,b,c", fmt.Sprintf("SLURM_JOB_ID=%d", os.Getpid())},
		"Open MPI's, on some hosts": {"OMPI_COMM_WORLD_RANK=%d", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
			fmt.Sprintf("PMIX_NAMESPACE=%d-far", os.Getpid())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "Slurm's, without a secret" || name == "Open MPI's, on some hosts" { // these meet by a file
				needsAddress(t)
			}
			out := t.TempDir()
			var all []*trial
			for p := 2; p >= 0; p-- {
				mine := []string{"TEST_DO=done"}
				for _, v := range vars {
					mine = append(mine, strings.ReplaceAll(v, "%d", strconv.Itoa(p)))
				}
				all = append(all, begin(t, out, mine...))
			}
			for _, x := range all {
				x.ends(0)
			}
		})
	}
}

// Without the local launcher every process ends with the job's code, and one prints why.
func TestFailureWithoutLauncher(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	var all []*trial
	for p := range 3 {
		all = append(all, begin(t, out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=3", "MASTER_ADDR=localhost", "MASTER_PORT=117", "TEST_DO=error:2"))
	}
	all[0].ends(1, "process 2 (rank 2): the disk is full")
	all[1].ends(1)
	all[2].ends(1)

	all, out = nil, t.TempDir()
	for p := range 3 {
		all = append(all, begin(t, out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=3", "MASTER_ADDR=localhost", "MASTER_PORT=118"))
	}
	all[0].running(3)
	all[0].cmd.Process.Kill()
	all[0].ends(-1)
	all[1].ends(1, "process 0 is lost")
	all[2].ends(1)
}

// A job whose mpirun is killed ends.
func TestParentGone(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	vars := []string{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2", fmt.Sprintf("PMIX_NAMESPACE=%d-gone", os.Getpid())}
	one := begin(t, out, append(vars, "OMPI_COMM_WORLD_RANK=1")...)
	shell := begin(t, out, append(vars, "OMPI_COMM_WORLD_RANK=0", "TEST_PARENT=1")...)
	one.running(2)
	shell.cmd.Process.Kill()
	one.ends(143)
	until(t, "the last process to end", func() bool { return len(processes(shell.id)) == 0 })
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin(t, t.TempDir(), "TEST_NP=2", "TEST_RDZV="+l.Addr().String()).ends(1, l.Addr().String()+" is in use", "--rdzv")
}

func TestWrongSecret(t *testing.T) {
	t.Parallel()
	rdzv := "TEST_RDZV=127.0.0.1:" + freePort(t)
	right, wrong := "ECREC_SECRET=0123456789abcdef", "ECREC_SECRET=0123456789abcdeX"
	host := begin(t, t.TempDir(), "RANK=0", "WORLD_SIZE=2", rdzv, right, "TEST_MEET=1500ms")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", rdzv, wrong).ends(1, "process 1 was refused: it does not know this job's secret")
	host.ends(1, "process 1 (ranks 1, 3) did not join", "Last refused: 127.0.0.1:", "does not know this job's secret")

	// Refused processes do not keep the job from starting.
	host = begin(t, t.TempDir(), "RANK=0", "WORLD_SIZE=2", rdzv, right, "TEST_DO=done")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", rdzv, wrong).ends(1, "refused")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", rdzv, right, "TEST_SAME=another config").ends(1, "different configs")
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=3", rdzv, right).ends(1, "one of 3")
	begin(t, host.out, "RANK=1", "WORLD_SIZE=2", rdzv, right, "TEST_DO=done").ends(0)
	host.ends(0)
}

// Another program listens at the rendezvous's address.
func TestStrangerAtTheRendezvous(t *testing.T) {
	t.Parallel()
	address := serveStranger(t, func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n", strings.Repeat("x", 100))
	})
	begin(t, t.TempDir(), "RANK=1", "WORLD_SIZE=2", "TEST_RDZV="+address, "ECREC_SECRET=0123456789abcdef").
		ends(1, "not this job's process 0")
}

func TestTwoJobsAtOnce(t *testing.T) {
	t.Parallel()
	a, b := begin(t, t.TempDir(), "TEST_NP=2"), begin(t, t.TempDir(), "TEST_NP=2")
	seenA, seenB := a.running(2), b.running(2)
	if seenA[0].Secret == seenB[0].Secret {
		t.Error("two jobs have one secret")
	}
	a.cmd.Process.Kill()
	a.ends(-1)
	if len(b.finished) > 0 {
		t.Error("one job ended the other")
	}
	b.cmd.Process.Signal(syscall.SIGINT)
	b.ends(130, "stopped by a signal")
}

// A process that waits for another prints which and where, and again when it is stopped.
func TestOneOfTwoWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rank, waits, ends string }{
		{"0", "process 0 waits for process 1 (ranks 1, 3) (1 of 2 have joined) at 127.0.0.1:%s, for 20s at most\n",
			"stopped by a signal before the first step, while it waited for process 1 (ranks 1, 3) (1 of 2 have joined)\n"},
		{"1", "process 1 waits for process 0 at 127.0.0.1:%s (connect: connection refused), for 20s at most\n",
			"process 1: stopped by a signal while it waited for process 0 at 127.0.0.1:%s\n"},
	} {
		port := freePort(t)
		x := begin(t, t.TempDir(), "RANK="+c.rank, "WORLD_SIZE=2", "TEST_RDZV=127.0.0.1:"+port, testSecret, "TEST_NOTICE=50ms")
		until(t, "its message", func() bool { return strings.Contains(x.err1.String(), strings.ReplaceAll(c.waits, "%s", port)) })
		kill(t, syscall.SIGTERM, x.cmd.Process.Pid)
		if said := x.over(143); !strings.HasSuffix(said, strings.ReplaceAll(c.ends, "%s", port)) {
			t.Errorf("said %q", said)
		}
	}
}
