package launcher

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// supervisor runs one place: the state machine of a control.Supervisor, its worker, the links
// to the voters, and its own part in keeping the job's state (controller).
type supervisor struct {
	*loop
	place    place.Place
	number   int // in the job: the place's, unless it joined a running job
	spec     Spec
	limits   limits
	launched bool       // by the local launcher
	launcher *wire.Conn // to it
	secret   []byte
	bind     string // this machine's IP address, as the others reach it

	machine    *control.Supervisor
	timer      *time.Timer // the state machine's
	timers     int         // how often it was set
	controller *controller // nil: others keep the job's state
	voterLinks
	worker  *workerChild
	standby *workerChild    // nil: there is none
	listen  control.Message // the last one to the worker that named a generation
	worked  atomic.Bool     // there has been a worker

	left    bool
	counted bool // the job counts this supervisor as lost, and may continue
	code    int
	printed string // the line about the job's end, if this supervisor printed it
}

func newSupervisor(p place.Place, spec Spec, lim limits, launched bool) *supervisor {
	s := &supervisor{loop: newLoop(), place: p, number: p.Process, spec: spec, limits: lim, launched: launched, bind: "127.0.0.1",
		machine: control.NewSupervisor(p.Process, lim.Limits, p.Where()), voterLinks: newVoterLinks()}
	if spec.Elastic || s.isHost() {
		c := newController(s.loop, p, spec.shapeOf(p, launched), lim, &s.spec, newMember(p.Process))
		c.sendOwn = func(m control.Message) { s.receiveFromVoter(s.number, m) }
		c.print = s.spec.printLine
		c.joinedAt = func(ip string) { s.bind = ip }
		c.ended = func(m control.Message) { s.step(control.Event{Kind: control.EventReceive, Message: &m}) }
		s.controller = c
	}
	return s
}

// isHost reports whether the job begins here.
func (s *supervisor) isHost() bool { return s.place.Process == 0 && !s.launched }

// runPlace supervises the place until the job ends, and returns the job's exit code.
// The listener inherited is the rendezvous if that is open already; otherwise it is nil.
func (s *supervisor) runPlace(inherited net.Listener) (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for {
			select {
			case sig := <-signals:
				s.post(func() { s.step(control.Event{Kind: control.EventSignal, Signal: int(sig.(syscall.Signal))}) })
			case <-s.done:
				return
			}
		}
	}()
	if s.place.Started {
		go s.watchParent()
	}
	if s.launcher != nil {
		go s.obeyLauncher()
	}
	if s.isHost() {
		if err := s.openRendezvous(inherited); err != nil {
			close(s.done)
			return control.ExitFailed, err
		}
	} else {
		go s.joinJob()
	}
	if s.spec.Elastic {
		go s.postEvery(s.spec.Heartbeat, s.checkLeader)
	}
	if s.spec.Prepare != nil || s.spec.Standby {
		go s.prepareSpare()
	}
	hasLeft := func() bool { return s.left }
	if c := s.controller; c != nil {
		s.runUntil(hasLeft, c.wake, c.performDecisions)
		c.awaitJoined()
	} else {
		s.runUntil(hasLeft, nil, nil)
	}
	s.releaseAll()
	return s.code, nil
}

// openRendezvous opens the rendezvous. If that fails it may be open for this job, which runs
// and has lost this process: then it joins there.
func (s *supervisor) openRendezvous(inherited net.Listener) error {
	wanted := s.place.Rendezvous
	l, err := s.place.Open(inherited, s.secret)
	if err == nil {
		if s.place.Rendezvous != wanted {
			s.spec.printLine(fmt.Sprintf("another user of this machine holds the local socket %s of the rendezvous; the processes meet by the file %s", wanted.Socket(), s.place.Rendezvous.Address), false)
			s.controller.place = s.place
		}
		return s.controller.hostJob(l, s.secret)
	}
	if s.spec.Elastic && s.place.Responds(s.secret) {
		go s.joinJob()
		return nil
	}
	return err
}

// joinJob joins at the rendezvous.
func (s *supervisor) joinJob() {
	self, ip := newMember(s.place.Process), ""
	var e *endpoint
	p := s.place
	got, err := p.Visit(place.Visit{Secret: s.secret, Handshake: s.limits.handshake, Meet: s.limits.Meet, Notice: s.limits.notice,
		Waiting: s.printWaiting, Cancelled: s.done, Introduce: func(local net.Addr) (m control.Message, err error) {
			if ip = wire.IPOf(local); s.spec.Elastic && e == nil {
				if e, err = openEndpoint(ip); err != nil {
					return m, err
				}
				self.Endpoint = e.Addr().String()
			}
			return s.joinMessage(&self), nil
		}})
	welcome, running := got.Welcome, len(got.Welcome.Voters) > 0
	if err == nil && running {
		got.Conn.Close()
		welcome, err = s.askVoters(welcome, got.Secret, s.joinMessage(&self))
	}
	s.post(func() {
		if s.secret, s.bind = got.Secret, ip; err == nil && e != nil {
			if running {
				self.Number, s.number = welcome.Process, welcome.Process
				s.machine.Renumber(s.number)
			}
			s.controller.me, s.controller.endpoint, s.controller.place = self, e, p
			err = s.controller.startConsensus(s.secret)
		}
		switch {
		case err != nil:
			s.reportRefusal(err)
			s.left, s.code = true, control.ExitFailed
		case running:
			s.voters = welcome.Voters
			s.dialVoters()
			s.awaitLeader()
		default:
			s.addVoterLink(welcome.Process, got.Conn)
		}
	})
}

// printWaiting prints that this process waits for process 0.
func (s *supervisor) printWaiting(why error) {
	if !s.launched {
		s.spec.printLine(fmt.Sprintf("process %d waits for process 0 at %s (%v), for %v at most", s.number, s.place.Where(),
			why, s.limits.Meet), false)
	}
}

// reportRefusal reports why this supervisor does not join: to its launcher, which may
// print it, or to people.
func (s *supervisor) reportRefusal(err error) {
	if s.launcher == nil {
		s.spec.printLine(err.Error(), true)
		return
	}
	_ = s.launcher.Send(control.Message{Kind: control.KindRefused, Text: err.Error()}) // a launcher that is gone needs no reason
}

func (s *supervisor) joinMessage(self *control.Member) control.Message {
	return control.Message{Kind: control.KindJoin, Processes: s.place.Processes, Job: s.spec.Same, Member: self}
}

// askVoters has a running job accept this supervisor: the leader assigns its number.
func (s *supervisor) askVoters(welcome control.Message, secret []byte, join control.Message) (control.Message, error) {
	for end := time.Now().Add(s.limits.Meet); welcome.Process == control.None; {
		for _, v := range welcome.Voters {
			_, answer, err := wire.Dial(v.Endpoint, secret, join, s.limits.handshake)
			switch {
			case errors.As(err, new(wire.Refusal)):
				return welcome, fmt.Errorf("the running job refused this process: %w", err)
			case err == nil && (answer.Process != control.None || len(answer.Voters) > 0):
				welcome = answer
			}
			if welcome.Process != control.None {
				return welcome, nil
			}
		}
		select {
		case <-time.After(redialEvery):
		case <-s.done:
			return welcome, place.ErrCancelled
		}
		if time.Now().After(end) {
			return welcome, fmt.Errorf("the job runs, but no leader was found within %v", s.limits.Meet)
		}
	}
	return welcome, nil
}

// watchParent stops the job, with all saved, when the launcher that started this process is
// gone: nothing would end the job any more.
func (s *supervisor) watchParent() {
	const pollEvery = 500 * time.Millisecond
	for parent := os.Getppid(); ; {
		select {
		case <-time.After(pollEvery):
		case <-s.done:
			return
		}
		if os.Getppid() != parent {
			s.post(func() { s.step(control.Event{Kind: control.EventStop, Signal: int(syscall.SIGTERM)}) })
			return
		}
	}
}

// obeyLauncher handles the messages of the local launcher.
func (s *supervisor) obeyLauncher() {
	for {
		m, err := s.launcher.Receive()
		if err != nil {
			m = control.Message{Kind: control.KindKill,
				Signal: int(syscall.SIGTERM)} // the launcher is gone, and nothing else would end this process
		}
		switch m.Kind {
		case control.KindStop:
			s.post(func() { s.step(control.Event{Kind: control.EventStop, Signal: m.Signal}) })
		case control.KindKill:
			s.post(func() { s.step(control.Event{Kind: control.EventKill, Signal: m.Signal}) })
		}
		if err != nil {
			return
		}
	}
}

// step applies an event to the state machine, and does the actions that follow.
func (s *supervisor) step(e control.Event) {
	for _, a := range s.machine.Step(e) {
		switch a.Do {
		case control.DoSendJob:
			s.sendJob(a.Message)
		case control.DoSendWorker:
			s.sendWorker(a.Message)
		case control.DoStart:
			s.startWorker(a.Message)
		case control.DoKill:
			s.worker.killed = true
			s.worker.kill()
		case control.DoPause:
			s.worker.pause(a.After)
		case control.DoDie:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case control.DoTimer:
			s.setTimer(a.After)
		case control.DoPrint:
			if s.printsForOthers() {
				s.printed = a.Text
				s.spec.printLine(a.Text, true)
			}
		case control.DoLeave:
			s.left, s.code = true, a.Code
		}
	}
}

func (s *supervisor) setTimer(after time.Duration) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timers++
	if after == 0 {
		return
	}
	number := s.timers
	s.timer = time.AfterFunc(after, func() {
		s.post(func() {
			if s.timers == number { // not replaced meanwhile
				s.step(control.Event{Kind: control.EventExpire})
			}
		})
	})
}

// releaseAll ends everything that this supervisor holds.
func (s *supervisor) releaseAll() {
	if s.controller != nil {
		s.controller.flushProposals()
	}
	close(s.done)
	for _, w := range []*workerChild{s.standby, s.worker} {
		if w != nil {
			w.killAndWait(leaveLimit)
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.controller != nil {
		s.controller.reportEnd(s.code, s.printed)
	}
	s.closeLinks()
	if s.controller == nil {
		return
	}
	s.controller.releaseAll()
	if _, lost := s.controller.voters(); len(lost) > 0 && !s.counted {
		s.place.EndMPIRun()
	}
}
