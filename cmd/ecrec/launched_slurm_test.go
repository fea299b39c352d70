package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cluster is four Slurm nodes on this machine, for the duration of the tests. Each user of eachUser has one.
type cluster struct {
	dir  string
	conf string
	err  error // why there is none
}

const clusterText = `ClusterName=tests
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[4]d
AuthType=auth/none
CredType=cred/none
SlurmUser=%[3]s
SlurmdUser=%[3]s
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool/%%n
SlurmctldPidFile=%[2]s/ctld.pid
SlurmdPidFile=%[2]s/%%n.pid
SlurmctldLogFile=%[2]s/ctld.log
SlurmdLogFile=%[2]s/%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=requeue_delay=1,sched_interval=1,bf_interval=1,sched_min_interval=0
ReturnToService=2
MailProg=/bin/true
KillWait=10
NodeName=n[0-3] NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=[%[5]d-%[6]d] CPUs=16
PartitionName=p Nodes=ALL Default=YES
`

var clusters = struct {
	sync.Mutex
	of map[int]*cluster
}{of: map[int]*cluster{}}

// cluster starts the user's Slurm once, and skips the test if that is impossible.
func (s *site) cluster(t *testing.T) *cluster {
	t.Helper()
	clusters.Lock()
	defer clusters.Unlock()
	c := clusters.of[s.uid]
	if c == nil {
		c = startCluster(clusterConf(s.uid))
		clusters.of[s.uid] = c
	}
	if c.err != nil {
		t.Skip(c.err)
	}
	return c
}

// clusterConf is the path of the config of a user's cluster, which may not run yet.
func clusterConf(uid int) string {
	return filepath.Join(builds, fmt.Sprint("slurm", uid), "slurm.conf")
}

// command prepares a command of Slurm.
func (c *cluster) command(line ...string) *exec.Cmd {
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf)
	return cmd
}

// run runs a command of Slurm.
func (c *cluster) run(t *testing.T, line ...string) {
	t.Helper()
	if out, err := c.command(line...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", line, err, out)
	}
}

// cancelAll ends all jobs, or sends them a signal.
func (c *cluster) cancelAll(t *testing.T, how string) {
	t.Helper()
	c.run(t, "bash", "-c", "scancel "+how+" $(squeue -h -o %A)")
}

func startCluster(conf string) *cluster {
	c := &cluster{dir: filepath.Dir(conf), conf: conf}
	for _, program := range []string{"slurmctld", "slurmd", "srun", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			c.err = fmt.Errorf("no Slurm (Debian: slurm-wlm, slurm-client): %w", err)
			return c
		}
	}
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	me, err := user.Current()
	if err != nil {
		c.err = err
		return c
	}
	port := freePorts(5)
	text := fmt.Sprintf(clusterText, host, c.dir, me.Username, port, port+1, port+4)
	if c.err = os.MkdirAll(filepath.Join(c.dir, "state"), 0o755); c.err == nil {
		c.err = os.WriteFile(c.conf, []byte(text), 0o644)
	}
	if c.err == nil {
		c.err = os.Chmod(builds, 0o755) // for users
	}
	if c.err != nil {
		return c
	}
	if out, err := c.command("slurmctld", "-c").CombinedOutput(); err != nil {
		c.err = fmt.Errorf("slurmctld: %w: %s", err, out)
		return c
	}
	for n := range 4 {
		if err := c.startNode(n); err != nil {
			c.err = err
			return c
		}
	}
	c.err = c.idle()
	return c
}

// freePorts returns the first of n consecutive free ports.
func freePorts(n int) (first int) {
	for first = 21000 + os.Getpid()%8000; ; first += n {
		free := true
		for p := first; p < first+n; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return first
		}
	}
}

func (c *cluster) startNode(n int) error {
	if err := os.MkdirAll(filepath.Join(c.dir, "spool", fmt.Sprint("n", n)), 0o755); err != nil {
		return err
	}
	if out, err := c.command("slurmd", "-N", fmt.Sprint("n", n)).CombinedOutput(); err != nil {
		return fmt.Errorf("slurmd: %w: %s", err, out)
	}
	return nil
}

// idle waits until all nodes are idle.
func (c *cluster) idle() error {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		out, err := c.command("sinfo", "-h", "-t", "idle", "-o", "%D").Output()
		if strings.TrimSpace(string(out)) == "4" {
			return nil
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(c.dir, "ctld.log"))
			return fmt.Errorf("Slurm's nodes are not idle: %q, %v; %s", out, err, log)
		}
	}
}

// loseNode kills all processes of a node at once, as a power failure would, and marks it as down in
// Slurm, which would notice only after SlurmdTimeout. repair restores the node.
func (c *cluster) loseNode(t *testing.T, n int, x *launched) (repair func()) {
	t.Helper()
	name := fmt.Sprint("n", n)
	var lost []int
	if text, err := os.ReadFile(filepath.Join(c.dir, name+".pid")); err == nil {
		var pid int
		if _, err := fmt.Sscan(string(text), &pid); err == nil {
			lost = append(lost, pid)
		}
	}
	for _, p := range x.processes() {
		vars, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if !strings.Contains(string(vars), "\x00SLURMD_NODENAME="+name+"\x00") {
			continue
		}
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid)); strings.TrimSpace(string(comm)) == "srun" {
			lost = slices.Insert(lost, 0, p.pid) // before the script: one that is stopped and loses its session gets SIGHUP
		} else {
			lost = append(lost, p.pid)
		}
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.parent)); strings.HasPrefix(string(line), "slurmstepd") {
			lost = append(lost, p.parent)
		}
	}
	if len(lost) < 3 {
		t.Fatalf("of node %s only %v is found", name, lost)
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range lost {
			syscall.Kill(pid, signal)
		}
	}
	c.run(t, "scontrol", "update", "nodename="+name, "state=down", "reason=lost")
	return func() {
		if err := c.startNode(n); err != nil { // it registers, and is up
			t.Error(err)
		}
		if err := c.idle(); err != nil {
			t.Error(err)
		}
	}
}

// stopCluster ends the daemons that were started, and those of steps whose srun was killed: they
// keep trying to report to it.
func stopCluster() {
	logs, _ := filepath.Glob(filepath.Join(builds, "slurm*", "n*.log"))
	if logs == nil {
		return
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	defer func() {
		for _, fd := range open {
			var pid int
			if path, err := os.Readlink(fd); err == nil && slices.Contains(logs, path) {
				fmt.Sscanf(fd, "/proc/%d/", &pid)
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	pids, _ := filepath.Glob(filepath.Join(builds, "slurm*", "*.pid"))
	for _, path := range pids {
		var pid int
		text, _ := os.ReadFile(path)
		if _, err := fmt.Sscan(string(text), &pid); err == nil {
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	time.Sleep(100 * time.Millisecond * time.Duration(min(len(pids), 10))) // they remove their files
}
