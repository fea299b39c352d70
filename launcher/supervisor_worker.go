package launcher

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/printable"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// workerChild is a supervisor's worker.
type workerChild struct {
	*child
	link       *link
	output     *output
	wasStandby bool
	killed     bool // by the state machine
	ended      bool // its end was handled
}

// KeptFile is the descriptor at which a worker finds Spec.Keep.
const KeptFile = 4

// prepareSpare starts a standby and calls Spec.Prepare, if there is no worker after a while.
func (s *supervisor) prepareSpare() {
	select {
	case <-time.After(s.limits.idle):
	case <-s.done:
		return
	}
	s.post(func() {
		if s.worker == nil {
			s.startStandby()
		}
	})
	if s.spec.Prepare == nil {
		return
	}
	s.spec.Prepare(func() bool {
		select {
		case <-s.done:
			return false
		default:
			return !s.worked.Load()
		}
	})
}

// startWorker starts a worker, or takes the standby, and sends it the generation to listen for.
func (s *supervisor) startWorker(m control.Message) {
	s.worked.Store(true)
	w := s.takeStandby()
	if w == nil {
		var err error
		if w, err = s.spawnWorker(); err != nil {
			s.endWorker(control.Outcome{Why: "could not be started: " + printable.JoinLines(err.Error())})
			return
		}
	}
	w.output.beginLog(s.spec.logPath(m.Process))
	s.worker = w
	s.sendWorker(control.Message{Kind: control.KindListen, Process: m.Process, Generation: m.Generation})
	if w.wasStandby {
		s.awaitStandby(w)
	}
}

// spawnWorker starts the process of a worker.
func (s *supervisor) spawnWorker() (*workerChild, error) {
	conn, theirs, err := childConn()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	w := &workerChild{link: &link{Conn: wire.NewConn(conn)}, output: new(output)}
	files := []*os.File{theirs}
	if s.spec.Keep != nil {
		files = append(files, s.spec.Keep)
	}
	vars := []string{envWorker + "=3"}
	line := openLifeline()
	if line != nil {
		defer line.file.Close()
		vars, files = append(vars, fmt.Sprintf("%s=%d", envLifeline, 3+len(files))), append(files, line.file)
	}
	cmd := selfCommand(s.spec.Args, files, vars...)
	cmd.Stdout, cmd.Stderr = s.spec.Stdout, w.output // rank 0's worker prints
	drained := make(chan struct{})                   // the worker's last message was received
	w.child, err = startChild(cmd, func(state *os.ProcessState) {
		<-drained
		o := outcomeOf(state, w.output)
		w.output.closeLog()
		s.post(func() { s.endChild(w, o) })
		if line != nil {
			line.endWatch()
		}
	})
	if err != nil {
		conn.Close()
		if line != nil {
			line.endWatch()
			line.await(0, nil)
		}
		return nil, err
	}
	go s.receiveFromWorker(w, drained)
	if line != nil {
		go line.await(w.cmd.Process.Pid, func() {
			o := control.Outcome{Signal: int(syscall.SIGKILL)}
			o.Log, o.Tail = w.output.lastLines()
			s.post(func() { s.endChild(w, o) })
		})
	}
	return w, nil
}

func (s *supervisor) endWorker(o control.Outcome) {
	s.step(control.Event{Kind: control.EventWorkerExited, Outcome: &o})
}

// sendWorker sends a message to the worker, and adds the fields that the job does not set.
func (s *supervisor) sendWorker(m control.Message) {
	if m.Kind == control.KindListen {
		m.Host = s.bind
		if s.spec.Elastic {
			m.Heartbeat = s.spec.Heartbeat
		}
		s.listen = m
	}
	if m.Membership != nil {
		membership := *m.Membership
		membership.Secret = wire.DeriveKey(s.secret, fmt.Sprintf("ecrec transport %d", membership.Generation))
		m.Membership = &membership
	}
	_ = s.worker.link.Send(m) // the end of a worker that is gone is an event of its own
}

func (s *supervisor) receiveFromWorker(w *workerChild, drained chan struct{}) {
	defer close(drained)
	dog := s.startWatchdog(w.link, func() {
		s.post(func() { s.step(control.Event{Kind: control.EventWorkerSilent}) })
	})
	defer dog.stop()
	w.link.receiveAll(func(m control.Message) {
		s.post(func() {
			s.step(control.Event{Kind: control.EventWorker, Message: &m})
			if m.Kind == control.KindCommitted && m.FullyRedundant { // it must not delay a recovery
				s.startStandby()
			}
		})
	})
}

// outcomeOf is how a worker ended.
func outcomeOf(state *os.ProcessState, out *output) control.Outcome {
	o := control.Outcome{Code: max(0, state.ExitCode())}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		o.Signal = int(status.Signal())
	}
	if o.Code == 0 && o.Signal == 0 {
		return o
	}
	if crash := out.crashLine(); crash != "" {
		o.Why = "crashed: " + crash
	}
	o.Log, o.Tail = out.lastLines()
	return o
}
