package launcher

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/launcher/place"
)

// pipeDelay is how long the output of a child that has ended is read, if a process that it
// started holds it open.
const pipeDelay = time.Second

// envWorker is the descriptor at which a worker finds its supervisor.
const envWorker = "ECREC_WORKER"

// envLifeline is the descriptor at which a worker finds its lifeline.
const envLifeline = "ECREC_LIFELINE"

// child is a process that does not outlive this one.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it is reaped

	mu     sync.Mutex
	reaped bool
}

// selfCommand runs this program again, with extra files from descriptor 3 on. The variables
// replace those of a place.
func selfCommand(args []string, files []*os.File, vars ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.ExtraFiles = files
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !isPlaceVariable(name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, vars...)
	return cmd
}

func isPlaceVariable(name string) bool {
	switch name {
	case place.EnvProcess, place.EnvProcesses, place.EnvRdzv, place.EnvSecret, place.EnvControl, envWorker, envLifeline:
		return true
	}
	return false
}

// standbyName is appended to the name of a standby. The system shows 15 bytes of a name.
const standbyName = "-standby"

// setProcessName shows this process under the program's name and a suffix: /proc/self/exe shows "exe".
func setProcessName(suffix string) {
	const limit = 15
	name := filepath.Base(os.Args[0])
	name = name[:min(len(name), limit-len(suffix))] + suffix
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // only a name for people
}

// startChild starts the command in a process group of its own. The system kills it when this
// process ends, however that happens. It calls ended when the child has ended.
func startChild(cmd *exec.Cmd, ended func(*os.ProcessState)) (*child, error) {
	cmd.SysProcAttr = childAttributes()
	cmd.WaitDelay = pipeDelay
	c := &child{cmd: cmd, gone: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The system kills the child when the thread ends that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := withSlack(cmd.Start)
		started <- err
		if err != nil {
			return
		}
		c.reap()
		ended(cmd.ProcessState)
		close(c.gone)
	}()
	return c, <-started
}

// reap waits for the child, and kills the processes that it started.
func (c *child) reap() {
	pid := c.cmd.Process.Pid
	waitExited(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL) // the number is the child's until Wait
	_ = c.cmd.Wait()                        // ProcessState has the result
	c.reaped = true
}

// kill ends the child and the processes that it started, at once.
func (c *child) kill() {
	// reap holds the lock only after the child's end.
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// pause suspends the child for a while.
func (c *child) pause(d time.Duration) {
	c.sendSignal(syscall.SIGSTOP)
	time.AfterFunc(d, func() { c.sendSignal(syscall.SIGCONT) })
}

func (c *child) sendSignal(number syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(c.cmd.Process.Pid, number)
	}
}

// isSuspended reports whether a signal or a debugger has stopped the child, so that it does not run however long one waits.
func (c *child) isSuspended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return false
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ") // behind the name, which may have any byte
	return strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "t")
}

// killAndWait kills the child and waits for its end, for limit at most.
func (c *child) killAndWait(limit time.Duration) {
	c.kill()
	select {
	case <-c.gone:
	case <-time.After(limit):
	}
}

// childConn is a connection to a child: this process's end, and the file for the child.
func childConn() (net.Conn, *os.File, error) {
	fds, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "child")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}
