package launcher

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// workerChild is the worker of a generation.
type workerChild struct {
	*child
	link   *link
	output *output
}

// KeptFile is the descriptor at which a worker finds Spec.Keep.
const KeptFile = 4

// prepare makes ready for a worker until there is one.
func (s *supervisor) prepare() {
	select {
	case <-time.After(s.limits.idle):
	case <-s.done:
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

// startWorker starts a worker and tells it for which generation to listen.
func (s *supervisor) startWorker(m message) {
	s.worked.Store(true)
	fail := func(err error) {
		s.do(s.member.workerGone(outcome{Why: "could not be started: " + oneLine(err.Error())}))
	}
	conn, theirs, err := socketpair()
	if err != nil {
		fail(err)
		return
	}
	defer theirs.Close()
	w := &workerChild{link: &link{wire: &wire{conn: conn, us: 0, them: 1}}, output: newOutput(s.spec.log(m.Process))}
	files := []*os.File{theirs}
	if s.spec.Keep != nil {
		files = append(files, s.spec.Keep)
	}
	cmd := again(s.spec.Args, files, envWorker+"=3")
	cmd.Stdout, cmd.Stderr = s.spec.Stdout, w.output // whoever hosts rank 0 speaks
	heard := make(chan struct{})                     // the worker's last word is read
	w.child, err = start(cmd, func(state *os.ProcessState) {
		<-heard
		o := ending(state, w.output)
		w.output.close()
		s.post(func() { s.do(s.member.workerGone(o)) })
	})
	if err != nil {
		conn.Close()
		fail(err)
		return
	}
	s.worker = w
	go s.hearWorker(w, heard)
	s.tellWorker(message{Kind: kindListen, Process: m.Process, Generation: m.Generation})
}

// tellWorker adds what a worker must know and the job does not.
func (s *supervisor) tellWorker(m message) {
	if m.Kind == kindListen {
		m.Host = s.bind
		if s.spec.Elastic {
			m.Heartbeat = s.spec.Heartbeat
		}
	}
	if m.World != nil {
		world := *m.World
		world.Secret = derive(s.secret, fmt.Sprintf("ecrec transport %d", world.Generation))
		m.World = &world
	}
	_ = s.worker.link.send(m) // a worker that is gone ends in workerGone
}

func (s *supervisor) hearWorker(w *workerChild, heard chan struct{}) {
	defer close(heard)
	v := s.keepVigil(w.link, func() { s.post(func() { s.do(s.member.workerSilent()) }) })
	defer v.end()
	w.link.listen(func(m message) { s.post(func() { s.do(s.member.hearWorker(m)) }) })
}

// ending is how a worker ended.
func ending(state *os.ProcessState, out *output) outcome {
	o := outcome{Code: max(0, state.ExitCode())}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		o.Signal = int(status.Signal())
	}
	if o.Code == 0 && o.Signal == 0 {
		return o
	}
	if crash := out.crash(); crash != "" {
		o.Why = "crashed: " + crash
	}
	o.Log, o.Tail = out.tail()
	return o
}
