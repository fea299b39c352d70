package launcher

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// agent is a worker's end of the connection to its supervisor. It replies to the supervisor
// at once, even while the worker computes, so that a new generation can form.
type agent struct {
	stop      atomic.Bool
	committed atomic.Uint64 // the generation of the last reported commit
	redundant atomic.Uint64 // and of the last one that was fully redundant
	leave     chan struct{} // closed when the process may end
	leaveOnce sync.Once

	sending sync.Mutex
	conn    *wire.Conn

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	begun   bool                  // the first message was received
	standby int                   // the number of processes to prepare for; 0: this is no standby
	newest  *World                // the newest world, which may still be forming
	formed  bool                  // newest has formed
	taken   bool                  // and was returned to the worker
	err     error                 // there will be no further world
	answers map[int]chan struct{} // by fault: closed once it was denied, or survived
	beating bool
}

// newAgent is nil if this process is no worker.
func newAgent() (*agent, error) {
	number := os.Getenv(envWorker)
	if number == "" {
		return nil, nil
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGTTOU)
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, place.Errorf("%s=%s: this variable is for ecrec's own use; unset it", envWorker, number)
	}
	os.Unsetenv(envWorker)
	if fd, err := strconv.Atoi(os.Getenv(envLifeline)); err == nil {
		holdLifeline(fd)
	}
	os.Unsetenv(envLifeline)
	setProcessName("")
	conn, err := wire.Inherit(fd)
	if err != nil {
		return nil, place.Errorf("%s=%s: there is no supervisor (%v); this variable is for ecrec's own use; unset it", envWorker, number, err)
	}
	a := &agent{conn: wire.NewConn(conn), leave: make(chan struct{}), answers: map[int]chan struct{}{}}
	a.changed.L = &a.mu
	go a.receiveAll()
	return a, nil
}

func (a *agent) send(m control.Message) {
	a.sending.Lock()
	defer a.sending.Unlock()
	_ = a.conn.Send(m) // receiveAll ends the worker if the supervisor is gone
}

// receiveAll handles the supervisor's messages. A worker without a supervisor ends.
func (a *agent) receiveAll() {
	for {
		m, err := a.conn.Receive()
		if err != nil {
			os.Exit(control.ExitFailed)
		}
		a.noteFirst(m)
		switch m.Kind {
		case control.KindListen:
			a.formWorld(m)
		case control.KindWorld:
			a.completeWorld(m.Membership)
		case control.KindStop:
			a.stop.Store(true)
		case control.KindFired:
			a.answerFault(m.Fault)
		case control.KindAbort:
			err := ErrEnding
			if m.Text != "" {
				err = &Ending{Why: m.Text, PrintedBy: m.Process}
			}
			a.endWorlds(err)
			a.leaveOnce.Do(func() { close(a.leave) })
		case control.KindLeave:
			a.leaveOnce.Do(func() { close(a.leave) })
		}
	}
}

// noteFirst handles the first message: a worker begins at once, and a standby waits for the second.
func (a *agent) noteFirst(m control.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case m.Kind == control.KindStandby:
		a.standby = m.Processes
		setProcessName(standbyName)
	case m.Kind == control.KindListen && a.standby > 0 && a.newest == nil:
		setProcessName("")
	}
	a.begun = true
	a.changed.Broadcast()
}

// prepare calls f with the number of the job's processes if this is a standby.
func (a *agent) prepare(f func(processes int)) {
	a.mu.Lock()
	for !a.begun {
		a.changed.Wait()
	}
	processes := a.standby
	a.mu.Unlock()
	if processes > 0 && f != nil {
		f(processes)
	}
}

// formWorld ends the present world and listens for a new one.
func (a *agent) formWorld(m control.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.newest; old != nil {
		close(old.changed)
		if !a.taken {
			old.Listener.Close()
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(m.Host, "0"))
	if err != nil {
		a.err, a.newest = fmt.Errorf("cannot listen for the other processes: %w", err), nil
		a.changed.Broadcast()
		return
	}
	a.newest = &World{Generation: m.Generation, Process: m.Process, Listener: l, agent: a, changed: make(chan struct{})}
	a.formed, a.taken = false, false
	a.send(control.Message{Kind: control.KindListening, Addr: l.Addr().String(), Generation: m.Generation, PID: os.Getpid()})
	if m.Heartbeat > 0 && !a.beating {
		a.beating = true
		go a.sendHeartbeats(m.Heartbeat)
	}
}

// completeWorld handles the membership of the world that forms.
func (a *agent) completeWorld(m *control.Membership) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.newest
	if m == nil || w == nil || a.formed || m.Generation != w.Generation {
		return
	}
	w.Processes, w.Secret, w.Trained, w.Doubts, w.fired = m.Processes, m.Secret, m.Trained, m.Doubts, m.Fired
	w.ID, w.Spares, w.Incidents = m.JobID, m.Spares, m.Incidents
	if m.LostAt != 0 {
		w.LostAt = time.Unix(0, m.LostAt)
	}
	a.formed = true
	a.changed.Broadcast()
}

// nextWorld waits for a world newer than w, the last one that it returned.
func (a *agent) nextWorld(w *World) (*World, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && (a.newest == nil || !a.formed || a.newest.Generation <= w.Generation) {
		a.changed.Wait()
	}
	if a.err != nil {
		return nil, a.err
	}
	a.taken = true
	return a.newest, nil
}

// endWorlds ends every wait for a world with an error.
func (a *agent) endWorlds(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	a.changed.Broadcast()
}

// endingReason is why there will be no further world.
func (a *agent) endingReason() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	return ErrEnding
}

func (a *agent) sendHeartbeats(interval time.Duration) {
	for {
		a.send(control.Message{Kind: control.KindHeartbeat})
		time.Sleep(interval)
	}
}

// fireFault requests a fault, and waits until it was denied or survived.
func (a *agent) fireFault(f control.Fault) {
	answered := make(chan struct{})
	a.mu.Lock()
	a.answers[f.Number] = answered
	a.mu.Unlock()
	a.send(control.Message{Kind: control.KindFire, Fault: &f})
	<-answered
}

func (a *agent) answerFault(f *control.Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f == nil || a.answers[f.Number] == nil {
		return
	}
	close(a.answers[f.Number])
	delete(a.answers, f.Number)
}
