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
)

// envWorker is the descriptor at which a worker finds its supervisor.
const envWorker = "ECREC_WORKER"

// agent is a worker's end of the connection to its supervisor, for as long as the
// worker lives. It listens for a new generation at once, whatever the worker does.
type agent struct {
	stop      atomic.Bool
	committed atomic.Uint64 // the generation in which a commit was told last
	whole     atomic.Uint64 // and one of all that was lost
	leave     chan struct{} // closed when the process may end
	over      sync.Once     // of leave

	sending sync.Mutex
	link    *wire

	mu      sync.Mutex // guards what follows
	told    sync.Cond
	newest  *World                // the last that was told, or is forming
	formed  bool                  // newest was told
	taken   bool                  // and given to the worker
	err     error                 // there will be no world any more
	answers map[int]chan struct{} // by fault: closed once it may not happen, or has
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
		return nil, placeErrorf("%s=%s: this variable is for ecrec's own use; unset it", envWorker, number)
	}
	os.Unsetenv(envWorker)
	keepName()
	conn, err := inherit(fd)
	if err != nil {
		return nil, placeErrorf("%s=%s: there is no supervisor (%v); this variable is for ecrec's own use; unset it", envWorker, number, err)
	}
	a := &agent{link: &wire{conn: conn, us: 1, them: 0}, leave: make(chan struct{}), answers: map[int]chan struct{}{}}
	a.told.L = &a.mu
	go a.listen()
	return a, nil
}

func (a *agent) send(m message) {
	a.sending.Lock()
	defer a.sending.Unlock()
	_ = a.link.send(m) // without a supervisor nobody is left to tell
}

// listen hears the supervisor for as long as the worker lives. Without it the
// worker does not live either.
func (a *agent) listen() {
	for {
		m, err := a.link.receive()
		if err != nil {
			os.Exit(exitFailed)
		}
		switch m.Kind {
		case kindListen:
			a.form(m)
		case kindWorld:
			a.tell(m.World)
		case kindStop:
			a.stop.Store(true)
		case kindFired:
			a.answer(m.Fault)
		case kindAbort:
			err := ErrEnding
			if m.Text != "" {
				err = &Ending{Why: m.Text, Speaker: m.Process}
			}
			a.fail(err)
			a.over.Do(func() { close(a.leave) })
		case kindLeave:
			a.over.Do(func() { close(a.leave) })
		}
	}
}

// form ends the world that there is and listens for a new one.
func (a *agent) form(m message) {
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
		a.err = fmt.Errorf("cannot listen for the other processes: %w", err)
		a.told.Broadcast()
		return
	}
	a.newest = &World{Generation: m.Generation, Process: m.Process, Listener: l, agent: a, changed: make(chan struct{})}
	a.formed, a.taken = false, false
	a.send(message{Kind: kindListening, Addr: l.Addr().String(), Generation: m.Generation})
	if m.Heartbeat > 0 && !a.beating {
		a.beating = true
		go a.beat(m.Heartbeat)
	}
}

func (a *agent) tell(m *members) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.newest
	if m == nil || w == nil || a.formed || m.Generation != w.Generation {
		return
	}
	w.Processes, w.Secret, w.Trained, w.fired = m.Processes, m.Secret, m.Trained, m.Fired
	if m.Lost != 0 {
		w.LostAt = time.Unix(0, m.Lost)
	}
	a.formed = true
	a.told.Broadcast()
}

// next waits for a world newer than w, the one that was taken before.
func (a *agent) next(w *World) (*World, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && (a.newest == nil || !a.formed || a.newest.Generation <= w.Generation) {
		a.told.Wait()
	}
	if a.err != nil {
		return nil, a.err
	}
	a.taken = true
	return a.newest, nil
}

func (a *agent) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	a.told.Broadcast()
}

// whyEnding is why there will be no world any more.
func (a *agent) whyEnding() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	return ErrEnding
}

// beat shows the supervisor that this process lives.
func (a *agent) beat(every time.Duration) {
	for {
		a.send(message{Kind: kindBeat})
		time.Sleep(every)
	}
}

// fire asks for a fault and waits until it has happened, or it is known that it did
// before.
func (a *agent) fire(f Fault) {
	answered := make(chan struct{})
	a.mu.Lock()
	a.answers[f.Number] = answered
	a.mu.Unlock()
	a.send(message{Kind: kindFire, Fault: &f})
	<-answered
}

func (a *agent) answer(f *Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f == nil || a.answers[f.Number] == nil {
		return
	}
	close(a.answers[f.Number])
	delete(a.answers, f.Number)
}
