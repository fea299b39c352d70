package launcher

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec is what is to be run.
type Spec struct {
	Ranks int
	// Spares are how many of the place's processes wait for another's loss: those
	// with the highest numbers.
	Spares int
	// Elastic says that the work survives the loss of workers: they are started
	// again. MaxRestarts bounds the losses in a row without a commit between.
	Elastic     bool
	MaxRestarts int
	// Heartbeat is how often the processes of an elastic job show that they live;
	// one that is silent for 5 of them is lost.
	Heartbeat time.Duration
	// Out is the folder where workers keep process-P.log.
	Out string
	// Args are this program's arguments; every process gets the same.
	Args []string
	// Same must be equal on all processes: a digest of config and program.
	Same string
	// Process 0's worker writes to Stdout; errors go to Stderr, one line each.
	Stdout, Stderr io.Writer
}

func (s *Spec) log(process int) string {
	return filepath.Join(s.Out, fmt.Sprintf("process-%d.log", process))
}

const (
	maxEvents = 64
	// leaveLimit is how long a process that ends waits for others to have gone.
	leaveLimit = 2 * time.Second
	// parentEvery is how often a supervisor looks whether its launcher lives.
	parentEvery = 500 * time.Millisecond
)

// The timers of a supervisor's state machines.
const (
	memberTimer = iota
	jobTimer
	timers
)

// supervisor runs the state machines of a place: a goroutine that takes one event
// after the other and does what they say.
type supervisor struct {
	place    Place
	spec     Spec
	limits   limits
	launched bool // by our own launcher
	secret   []byte
	host     string
	bind     string // our IP address, as the others know it

	events chan func()
	done   chan struct{} // closed when no event is taken any more
	timer  [timers]*time.Timer
	since  [timers]int // how often a timer was set

	member *member
	job    *job    // process 0's
	hall   *hall   // process 0's
	links  []*wire // process 0's, to the other supervisors
	toJob  *wire   // the others', to process 0
	open   sync.WaitGroup
	worker *workerChild

	left bool
	code int
}

func newSupervisor(p Place, spec Spec, lim limits) *supervisor {
	s := &supervisor{place: p, spec: spec, limits: lim, host: hostIdentity(), bind: "127.0.0.1",
		events: make(chan func(), maxEvents), done: make(chan struct{}), member: &member{supervisor: p.Process, limits: lim}}
	if p.Process == 0 {
		s.job, s.links = newJob(spec.shape(p), lim), make([]*wire, p.Processes)
	}
	return s
}

func (s *Spec) shape(p Place) shape {
	return shape{processes: p.Processes - s.Spares, spares: s.Spares, ranks: s.Ranks, elastic: s.Elastic, maxRestarts: s.MaxRestarts}
}

// post has the state machines' goroutine run f; not any more once it has left.
func (s *supervisor) post(f func()) {
	select {
	case s.events <- f:
	case <-s.done:
	}
}

// run supervises a place and returns the job's exit code.
func (s *supervisor) run(control net.Conn, inherited net.Listener) (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for {
			select {
			case sig := <-signals:
				s.post(func() { s.do(memberTimer, s.member.signal(int(sig.(syscall.Signal)))) })
			case <-s.done:
				return
			}
		}
	}()
	if s.place.Started {
		go s.watchParent()
	}
	if control != nil {
		go s.obey(&wire{conn: control, us: 1, them: 0})
	}
	if s.job != nil {
		l, err := s.place.open(inherited)
		if err != nil {
			close(s.done)
			return exitFailed, err
		}
		s.receiveGuests(l)
	} else {
		go s.visit()
	}
	for !s.left {
		(<-s.events)()
	}
	s.leave()
	return s.code, nil
}

// watchParent stops the job, with all saved, when the launcher that started us is
// gone: nobody would end it any more.
func (s *supervisor) watchParent() {
	for parent := os.Getppid(); ; {
		select {
		case <-time.After(parentEvery):
		case <-s.done:
			return
		}
		if os.Getppid() != parent {
			s.post(func() { s.do(memberTimer, s.member.askStop(int(syscall.SIGTERM))) })
			return
		}
	}
}

// obey hears our launcher.
func (s *supervisor) obey(control *wire) {
	for {
		m, err := control.receive()
		if err != nil {
			m = message{Kind: kindKill, Signal: int(syscall.SIGTERM)} // without it nobody would end us
		}
		switch m.Kind {
		case kindStop:
			s.post(func() { s.do(memberTimer, s.member.askStop(m.Signal)) })
		case kindKill:
			s.post(func() { s.do(memberTimer, s.member.askKill(m.Signal)) })
		}
		if err != nil {
			return
		}
	}
}

// receiveGuests opens the rendezvous.
func (s *supervisor) receiveGuests(l net.Listener) {
	s.hall = &hall{listener: l, place: s.place, secret: s.secret, job: s.spec.Same, limits: s.limits}
	s.member.meet()
	s.post(func() {
		s.do(jobTimer, s.job.start())
		s.do(jobTimer, s.job.join(0, s.host))
	})
	go s.hall.admit(func(g guest) {
		s.post(func() {
			s.links[g.process] = g.link
			s.bind = g.at
			s.open.Add(1)
			go s.hearGuest(g)
			s.do(jobTimer, s.job.join(g.process, g.host))
		})
	})
}

// hearGuest hears another supervisor.
func (s *supervisor) hearGuest(g guest) {
	defer s.open.Done()
	v := s.keepVigil(func() { g.link.conn.Close() })
	defer v.end()
	for {
		m, err := g.link.receive()
		if err != nil {
			s.post(func() { s.do(jobTimer, s.job.lose(g.process)) })
			return
		}
		v.hear()
		s.post(func() { s.do(jobTimer, s.job.hear(g.process, m)) })
	}
}

// visit goes to the rendezvous and hears the job from then on.
func (s *supervisor) visit() {
	link, secret, err := s.place.visit(s.secret, s.spec.Same, s.host, s.limits, s.done)
	if err != nil {
		s.post(func() {
			if !s.launched {
				s.say(err.Error())
			}
			s.left, s.code = true, exitFailed
		})
		return
	}
	s.post(func() {
		s.toJob, s.secret, s.bind = link, secret, ipOf(link.conn.LocalAddr())
		s.member.meet()
	})
	if s.spec.Elastic {
		go s.beat()
	}
	for {
		m, err := link.receive()
		if err != nil {
			s.post(func() { s.do(memberTimer, s.member.loseJob()) })
			return
		}
		s.post(func() { s.do(memberTimer, s.member.hear(m)) })
	}
}

// do does what a state machine says.
func (s *supervisor) do(timer int, actions []action) {
	for _, a := range actions {
		switch a.Do {
		case doTell:
			s.tell(a.To, a.Message)
		case doTellAll:
			for i := range s.place.Processes {
				s.tell(i, a.Message)
			}
		case doTellJob:
			s.tellJob(a.Message)
		case doTellWorker:
			s.tellWorker(a.Message)
		case doStart:
			s.startWorker(a.Message)
		case doKill:
			s.worker.kill()
		case doPause:
			s.worker.pause(a.After)
		case doDie:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case doTimer:
			s.setTimer(timer, a.After)
		case doSay:
			if s.place.Process == 0 || s.place.Process == 1 && !s.launched { // 1 speaks when 0 is lost
				s.say(a.Text)
			}
		case doLeave:
			s.left, s.code = true, a.Code
		}
	}
}

func (s *supervisor) say(text string) { fmt.Fprintln(s.spec.Stderr, "ecrec: "+text) }

// tell is the job's message to a supervisor.
func (s *supervisor) tell(supervisor int, m message) {
	if supervisor == 0 {
		s.do(memberTimer, s.member.hear(m))
		return
	}
	if link := s.links[supervisor]; link != nil && link.send(m) != nil {
		link.conn.Close() // hearGuest says that it is lost
	}
}

// tellJob is a supervisor's message to the job.
func (s *supervisor) tellJob(m message) {
	if s.job != nil {
		s.do(jobTimer, s.job.hear(0, m))
		return
	}
	if s.toJob.send(m) != nil {
		s.toJob.conn.Close() // visit says that it is lost
	}
}

func (s *supervisor) setTimer(which int, after time.Duration) {
	if t := s.timer[which]; t != nil {
		t.Stop()
	}
	s.since[which]++
	if after == 0 {
		return
	}
	number := s.since[which]
	s.timer[which] = time.AfterFunc(after, func() {
		s.post(func() {
			switch {
			case s.since[which] != number: // set anew in the meantime
			case which == memberTimer:
				s.do(which, s.member.expire())
			default:
				s.do(which, s.job.expire(s.hall.lastRefusal()))
			}
		})
	})
}

// leave ends everything that this supervisor holds.
func (s *supervisor) leave() {
	if s.hall != nil {
		s.hall.listener.Close()
	}
	close(s.done)
	if s.worker != nil {
		s.worker.killAndWait(leaveLimit)
	}
	for _, t := range s.timer {
		if t != nil {
			t.Stop()
		}
	}
	if s.toJob != nil {
		s.toJob.conn.Close()
	}
	// The others close first: a connection that is closed with something unread
	// loses what was sent on it.
	gone := make(chan struct{})
	go func() {
		s.open.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(leaveLimit):
	}
	for _, l := range s.links {
		if l != nil {
			l.conn.Close()
		}
	}
}

// hostIdentity is equal for processes that see the same shared memory.
func hostIdentity() string {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	mounts, _ := os.Readlink("/proc/self/ns/mnt")
	return strings.Join([]string{name, strings.TrimSpace(string(boot)), mounts}, "/")
}
