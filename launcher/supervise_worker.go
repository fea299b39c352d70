package launcher

import (
	"os"
	"syscall"
)

// workerChild is the worker of a generation.
type workerChild struct {
	*child
	link   *wire
	output *output
}

// startWorker starts the worker and tells it where to listen.
func (s *supervisor) startWorker() {
	fail := func(err error) {
		s.do(memberTimer, s.member.workerGone(outcome{Why: "could not be started: " + oneLine(err.Error())}))
	}
	conn, theirs, err := socketpair()
	if err != nil {
		fail(err)
		return
	}
	defer theirs.Close()
	w := &workerChild{link: &wire{conn: conn, us: 0, them: 1}, output: newOutput(s.spec.log(s.place.Process))}
	cmd := again(s.spec.Args, []*os.File{theirs}, envWorker+"=3")
	cmd.Stdout, cmd.Stderr = w.output, w.output
	if s.place.Process == 0 {
		cmd.Stdout = s.spec.Stdout
	}
	heard := make(chan struct{}) // the worker's last word is read
	w.child, err = start(cmd, func(state *os.ProcessState) {
		<-heard
		o := ending(state, w.output)
		w.output.close()
		s.post(func() { s.do(memberTimer, s.member.workerGone(o)) })
	})
	if err != nil {
		conn.Close()
		fail(err)
		return
	}
	s.worker = w
	go s.hearWorker(w, heard)
	_ = w.link.send(message{Kind: kindListen, Host: s.bind, Process: s.place.Process}) // as in tellWorker
}

func (s *supervisor) hearWorker(w *workerChild, heard chan struct{}) {
	defer close(heard)
	for {
		m, err := w.link.receive()
		if err != nil {
			w.link.conn.Close()
			return
		}
		s.post(func() { s.do(memberTimer, s.member.hearWorker(m)) })
	}
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
