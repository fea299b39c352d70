package launcher

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipeDelay is how long the output of a child that ended is read on, should a
// process that it started hold it open.
const pipeDelay = time.Second

// child is a process that does not outlive this one.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it is reaped

	mu     sync.Mutex
	reaped bool
}

// again is a command that runs this program once more, with extra files from
// descriptor 3 on, and the variables given in place of those of a place.
func again(args []string, files []*os.File, vars ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.ExtraFiles = files
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !privateVariable(name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, vars...)
	return cmd
}

func privateVariable(name string) bool {
	switch name {
	case envProcess, envProcesses, envRdzv, envSecret, envControl, envWorker:
		return true
	}
	return false
}

// keepName shows this process under the program's name, where starting it as
// /proc/self/exe left "exe".
func keepName() {
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0) // for people's eyes only
}

// childSlack is how late a child's timers may be, in nanoseconds. The Go runtime has
// a thread that looks after the others every 20 us while they often wait; where ranks
// share cores, the looks of all of them took an eighth of the machine. The system
// puts them off so long now. Exact pauses do not use such timers (env.Sleep).
const childSlack = uintptr(2 * time.Millisecond)

// start starts the command in a process group of its own, to be killed when this
// process ends, however it ends. ended hears of its end.
func start(cmd *exec.Cmd, ended func(*os.ProcessState)) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = pipeDelay
	c := &child{cmd: cmd, gone: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal comes when the thread ends that started the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, childSlack, 0, 0, 0) // without it: the same, slower
		err := cmd.Start()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
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

// reap waits for the child. What it started goes with it.
func (c *child) reap() {
	pid := c.cmd.Process.Pid
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL) // the number is the child's until Wait
	_ = c.cmd.Wait()                        // the state says how it ended
	c.reaped = true
}

// kill ends the child and what it started, at once.
func (c *child) kill() {
	// reap holds the lock only when the child is gone.
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// pause has the child stand still for a while.
func (c *child) pause(d time.Duration) {
	c.signal(syscall.SIGSTOP)
	time.AfterFunc(d, func() { c.signal(syscall.SIGCONT) })
}

func (c *child) signal(number syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(c.cmd.Process.Pid, number)
	}
}

// killAndWait ends the child and waits until it is gone, or the limit is over.
func (c *child) killAndWait(limit time.Duration) {
	c.kill()
	select {
	case <-c.gone:
	case <-time.After(limit):
	}
}

// socketpair is a connection to a child: our end, and the file to give it.
func socketpair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
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

// inherit is the connection that a parent left at a descriptor.
func inherit(fd int) (net.Conn, error) {
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "parent")
	defer f.Close()
	return net.FileConn(f)
}
