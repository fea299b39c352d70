package launcher

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// crew is the launcher of --np: the supervisors that it started.
type crew struct {
	place  Place
	spec   Spec
	limits limits
	secret []byte

	address string   // of the rendezvous
	hall    *os.File // its listener, for process 0

	ended    chan int // processes
	children []*child
	controls []*wire
	signals  int
	code     int // of supervisor 0
	killed   bool
}

// launch starts a supervisor for every place on this machine, passes signals on
// and waits until all are gone.
func launch(p Place, spec Spec, lim limits) (int, error) {
	if p.Meet.Address == "" {
		p.Meet = Meeting{"tcp", "127.0.0.1:0"}
	}
	l, err := p.open(nil)
	if err != nil {
		return exitFailed, err
	}
	// From here on the supervisor holds the listener: it is not closed between us.
	file, err := l.(*net.TCPListener).File()
	address := l.Addr().String()
	l.Close()
	if err != nil {
		return exitFailed, fmt.Errorf("cannot pass the rendezvous %s on: %w", address, err)
	}
	c := &crew{place: p, spec: spec, limits: lim, secret: draw(secretBytes), address: address, hall: file, code: exitFailed,
		ended: make(chan int, p.Processes), children: make([]*child, p.Processes), controls: make([]*wire, p.Processes)}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	for i := range p.Processes {
		if err := c.startSupervisor(i); err != nil {
			for _, s := range c.children[:i] {
				s.killAndWait(leaveLimit)
			}
			return exitFailed, fmt.Errorf("cannot start process %d of %d: %w", i, p.Processes, err)
		}
	}
	file.Close()
	return c.wait(signals), nil
}

func (c *crew) startSupervisor(i int) error {
	conn, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	files := []*os.File{theirs}
	if i == 0 {
		files = append(files, c.hall)
	}
	cmd := again(c.spec.Args, files, envProcess+"="+strconv.Itoa(i), envProcesses+"="+strconv.Itoa(c.place.Processes),
		envRdzv+"="+c.address, envControl+"=1")
	cmd.Stdout, cmd.Stderr = c.spec.Stdout, c.spec.Stderr
	c.controls[i] = &wire{conn: conn, us: 0, them: 1}
	if c.children[i], err = start(cmd, func(*os.ProcessState) { c.ended <- i }); err != nil {
		return err
	}
	if err := c.controls[i].send(message{Kind: kindSecret, Secret: c.secret}); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err // one that has ended is heard of by its end
	}
	return nil
}

// wait passes signals on until all supervisors are gone.
func (c *crew) wait(signals <-chan os.Signal) int {
	// Once process 0's supervisor is gone, or a second signal came, the others go
	// by themselves; those that do not are killed.
	patience := time.NewTimer(0)
	<-patience.C
	for left := c.place.Processes; left > 0; {
		select {
		case i := <-c.ended:
			left--
			if i == 0 {
				c.judge()
				patience.Reset(c.limits.end + leaveLimit)
			}
		case sig := <-signals:
			c.signals++
			kind := kindStop
			if c.signals > 1 {
				kind = kindKill
				patience.Reset(leaveLimit)
			}
			c.tellAll(message{Kind: kind, Signal: int(sig.(syscall.Signal))})
			if c.signals == 2 {
				c.code, c.killed = exitSignal+int(sig.(syscall.Signal)), true
			}
		case <-patience.C:
			for _, s := range c.children {
				s.kill()
			}
		}
	}
	return c.code
}

// judge takes the end of process 0's supervisor, which has said why unless it was
// killed.
func (c *crew) judge() {
	if c.killed {
		return
	}
	state := c.children[0].cmd.ProcessState
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		c.code = exitFailed
		fmt.Fprintf(c.spec.Stderr, "ecrec: %s is lost: its supervisor was ended by signal %d%s\n", nameOf(0, c.place.Processes-c.spec.Spares, c.spec.Ranks), int(status.Signal()), signalHint(int(status.Signal())))
		return
	}
	c.code = state.ExitCode()
}

func (c *crew) tellAll(m message) {
	for _, w := range c.controls {
		_ = w.send(m) // one that is gone needs no message
	}
}
