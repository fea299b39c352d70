package launcher

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// localLauncher is the launcher of --np: the supervisors that it started, and its own part in
// keeping the job's state. The job begins at its rendezvous.
type localLauncher struct {
	*loop
	place      place.Place
	spec       Spec
	limits     limits
	secret     []byte
	controller *controller

	address  string // of the rendezvous
	children []supervisorChild
	living   int // supervisors that live
	signals  int
	ended    bool // the job, with code
	code     int
	why      string // the line about the job's end
}

// launch starts a supervisor for every place on this machine, passes signals on, and waits
// until all have ended.
func launch(p place.Place, spec Spec, lim limits) (int, error) {
	if p.Rendezvous.Address == "" {
		p.Rendezvous = place.Rendezvous{Network: "tcp", Address: "127.0.0.1:0"}
	}
	listener, err := p.Open(nil, nil)
	if err != nil {
		return control.ExitFailed, err
	}
	l := &localLauncher{loop: newLoop(), place: p, spec: spec, limits: lim, secret: place.DrawSecret(),
		address: listener.Addr().String(), code: control.ExitFailed,
		children: make([]supervisorChild, p.Processes)}
	c := newController(l.loop, p, spec.shapeOf(p, true), lim, &l.spec, newMember(p.Processes))
	c.print, c.killMember, c.ended, c.leaderless = l.printLine, l.killMember, l.endJob, l.giveUp
	l.controller = c
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	defer l.releaseAll()
	if err := c.hostJob(listener, l.secret); err != nil {
		return control.ExitFailed, err
	}
	for i := range p.Processes {
		if err := l.startSupervisor(i); err != nil {
			for _, s := range l.children[:i] {
				s.child.killAndWait(leaveLimit)
			}
			return control.ExitFailed, fmt.Errorf("cannot start process %d of %d: %w", i, p.Processes, err)
		}
	}
	go func() {
		for {
			select {
			case sig := <-signals:
				l.post(func() { l.passSignal(int(sig.(syscall.Signal))) })
			case <-l.done:
				return
			}
		}
	}()
	l.runUntil(func() bool { return l.living == 0 }, c.wake, c.performDecisions)
	c.performDecisions()
	code := l.exitCode()
	c.reportEnd(code, l.why)
	return code, nil
}

func (l *localLauncher) startSupervisor(i int) error {
	conn, theirs, err := childConn()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := selfCommand(l.spec.Args, []*os.File{theirs}, place.EnvProcess+"="+strconv.Itoa(i),
		place.EnvProcesses+"="+strconv.Itoa(l.place.Processes),
		place.EnvRdzv+"="+l.address, place.EnvControl+"=1")
	cmd.Stdout, cmd.Stderr = l.spec.Stdout, l.spec.Stderr
	child, err := startChild(cmd, func(state *os.ProcessState) { go l.post(func() { l.loseChild(i, state) }) })
	if err != nil {
		conn.Close()
		return err
	}
	l.living++
	s := &l.children[i]
	if s.conn != nil {
		s.conn.Close()
	}
	s.child, s.conn, s.began = child, wire.NewConn(conn), time.Now()
	if err := s.conn.Send(control.Message{Kind: control.KindSecret, Secret: l.secret}); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err // EPIPE: the child has ended, which loseChild handles
	}
	return nil
}

func (l *localLauncher) printLine(text string, last bool) {
	if last {
		l.why = text
	}
	l.spec.printLine(text, last)
}

// passSignal passes a stop request to all; the second signal kills them.
func (l *localLauncher) passSignal(number int) {
	l.signals++
	kind := control.KindStop
	if l.signals > 1 {
		kind = control.KindKill
		l.killAfter(leaveLimit)
	}
	if l.signals == 2 {
		l.endJob(control.Message{Kind: control.KindKill, Signal: number})
	}
	m := control.Message{Kind: kind, Signal: number}
	l.controller.receive(l.controller.me.Number, m)
	for i := range l.children {
		_ = l.children[i].conn.Send(m) // one that is gone needs no message
	}
}

// endJob handles the job's end. The supervisors end by themselves; late ones are killed.
func (l *localLauncher) endJob(m control.Message) {
	if l.ended {
		return
	}
	l.ended, l.code = true, m.Code
	if m.Kind == control.KindKill {
		l.code = control.ExitSignal + m.Signal
	}
	l.killAfter(l.limits.End + leaveLimit)
}

func (l *localLauncher) killAfter(d time.Duration) {
	time.AfterFunc(d, func() { l.post(l.killAll) })
}

func (l *localLauncher) killAll() {
	for i := range l.children {
		l.children[i].child.kill()
	}
}

// giveUp ends a job that has lost the majority of its voters.
func (l *localLauncher) giveUp() {
	if l.ended {
		return
	}
	voters, _ := l.controller.voters()
	l.printLine(minorityText(slices.DeleteFunc(voters, func(v control.Member) bool { return v.Number == l.controller.me.Number })), true)
	l.endJob(control.Message{Kind: control.KindEnd, Code: control.ExitFailed})
	l.killAll()
}

// exitCode is the job's exit code, once all supervisors have ended. If the launcher was
// suspended at the job's end, it is theirs.
func (l *localLauncher) exitCode() int {
	if !l.ended {
		killed := true
		for i := range l.children {
			if code := l.children[i].child.cmd.ProcessState.ExitCode(); code >= 0 {
				l.code, killed = code, false
			}
		}
		switch {
		case killed:
			l.code = control.ExitFailed
			l.printLine("all supervisors of the job were killed; resume from a checkpoint with --resume auto", true)
		case l.code != 0:
			l.printLine(fmt.Sprintf("the job has ended with exit code %d while the launcher was suspended; see %s", l.code, l.spec.logPath(0)), true)
		}
	}
	return l.code
}

func (l *localLauncher) releaseAll() {
	close(l.done)
	l.controller.releaseAll()
}
