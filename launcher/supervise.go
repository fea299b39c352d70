package launcher

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	// Faults names those that workers may ask for (World.Fire), by number. What has not
	// happened by the end is told.
	Faults []string
	// Heartbeat is how often the processes of an elastic job show that they live;
	// one that is silent for 5 of them is lost.
	Heartbeat time.Duration
	// Out is the folder where workers keep process-P.log.
	Out string
	// Keep, where it is not nil, is a file that every worker of a supervisor inherits, at
	// descriptor KeptFile: one after the other, each once the one before is gone.
	Keep *os.File
	// Prepare, where it is not nil, is called at a supervisor that waits without a worker, as
	// spares do: there is time to make Keep ready for one. It returns when goOn says no.
	Prepare func(goOn func() bool)
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
	// leaveLimit is how long a process that ends waits for others to have gone.
	leaveLimit = 2 * time.Second
	// parentEvery is how often a supervisor looks whether its launcher lives.
	parentEvery = 500 * time.Millisecond
)

// supervisor runs a place: its member's state machine on a loop, its worker, the
// connections to those that may lead the job, and its own part in keeping that (board).
type supervisor struct {
	*loop
	place    Place
	number   int // that the job knows it by: the place's, unless it came to a job that ran
	spec     Spec
	limits   limits
	launched bool // by our own launcher
	secret   []byte
	bind     string // our IP address, as the others know it

	member *member
	timer  *time.Timer // the member's
	since  int         // how often it was set
	board  *board      // nil: others keep the job
	council
	worker *workerChild
	worked atomic.Bool // there has been a worker

	left bool
	code int
}

func newSupervisor(p Place, spec Spec, lim limits, launched bool) *supervisor {
	s := &supervisor{loop: newLoop(), place: p, number: p.Process, spec: spec, limits: lim, launched: launched, bind: "127.0.0.1",
		member: &member{supervisor: p.Process, limits: lim}, council: newCouncil()}
	if spec.Elastic || s.hosts() {
		s.board = newBoard(s.loop, p, spec.shape(p, launched), lim, &s.spec, newKeeper(p.Process))
		s.board.own = func(m message) { s.hearVoter(s.number, m) }
		s.board.say = s.say
		s.board.came = func(at string) { s.bind = at }
		s.board.ended = func(m message) { s.do(s.member.hear(m)) }
	}
	return s
}

// hosts reports whether the job begins here.
func (s *supervisor) hosts() bool { return s.place.Process == 0 && !s.launched }

func newKeeper(number int) keeper {
	return keeper{Number: number, Place: number, Host: hostIdentity(), ID: hex.EncodeToString(draw(idBytes))}
}

func (s *Spec) shape(p Place, launched bool) shape {
	return shape{processes: p.Processes - s.Spares, spares: s.Spares, ranks: s.Ranks, elastic: s.Elastic, maxRestarts: s.MaxRestarts, faults: s.Faults, launched: launched}
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
				s.post(func() { s.do(s.member.signal(int(sig.(syscall.Signal)))) })
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
	if s.hosts() {
		if err := s.host(inherited); err != nil {
			close(s.done)
			return exitFailed, err
		}
	} else {
		go s.visit()
	}
	if s.spec.Elastic {
		go s.every(s.spec.Heartbeat, s.tick)
	}
	if s.spec.Prepare != nil {
		go s.prepare()
	}
	s.loop.run(s.board, func() bool { return s.left })
	s.leave()
	return s.code, nil
}

// host opens the rendezvous. Where that is open it may be one of this job, which runs and
// had lost this process.
func (s *supervisor) host(inherited net.Listener) error {
	l, err := s.place.open(inherited, s.secret)
	if err == nil {
		return s.board.openDoor(l, s.secret)
	}
	if s.spec.Elastic {
		if m, _, meetErr := s.place.Meet.found(s.secret); meetErr == nil && m.answers() {
			go s.visit()
			return nil
		}
	}
	return err
}

// visit goes to the rendezvous and hears the job from then on.
func (s *supervisor) visit() {
	self, at := newKeeper(s.place.Process), ""
	var d *door
	link, welcome, secret, err := s.place.visit(s.secret, s.limits, func(local net.Addr) (m message, err error) {
		if at = ipOf(local); s.spec.Elastic && d == nil {
			if d, err = openDoor(at); err != nil {
				return m, err
			}
			self.Door = d.Addr().String()
		}
		return s.joining(&self), nil
	}, s.done)
	runs := len(welcome.Voters) > 0
	if err == nil && runs {
		link.conn.Close()
		welcome, err = s.askVoters(welcome, secret, s.joining(&self))
	}
	s.post(func() {
		if s.secret, s.bind = secret, at; err == nil && d != nil {
			if runs {
				self.Number = welcome.Process
				s.number, s.member.supervisor = self.Number, self.Number
			}
			s.board.me, s.board.door = self, d
			err = s.board.keep(secret)
		}
		switch {
		case err != nil:
			if !s.launched {
				s.say(err.Error())
			}
			s.left, s.code = true, exitFailed
		case runs:
			s.voters = welcome.Voters
			s.reach()
			s.waitForLeader()
		default:
			s.reached(welcome.Process, link)
		}
	})
}

func (s *supervisor) joining(self *keeper) message {
	return message{Kind: kindJoin, Processes: s.place.Processes, Job: s.spec.Same, Keeper: self}
}

// askVoters has a job that runs take this supervisor in: whoever leads says its number.
func (s *supervisor) askVoters(welcome message, secret []byte, join message) (message, error) {
	for end := time.Now().Add(s.limits.meet); welcome.Process == nobody; {
		for _, k := range welcome.Voters {
			_, answer, err := knock(k.Door, secret, join, s.limits)
			switch {
			case errors.As(err, new(refusal)):
				return welcome, fmt.Errorf("the job runs, and refused this process: %w", err)
			case err == nil && (answer.Process != nobody || len(answer.Voters) > 0):
				welcome = answer
			}
			if welcome.Process != nobody {
				return welcome, nil
			}
		}
		select {
		case <-time.After(redialEvery):
		case <-s.done:
			return welcome, errCancelled
		}
		if time.Now().After(end) {
			return welcome, fmt.Errorf("the job runs, and for %v nobody was found who leads it", s.limits.meet)
		}
	}
	return welcome, nil
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
			s.post(func() { s.do(s.member.askStop(int(syscall.SIGTERM))) })
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
			s.post(func() { s.do(s.member.askStop(m.Signal)) })
		case kindKill:
			s.post(func() { s.do(s.member.askKill(m.Signal)) })
		}
		if err != nil {
			return
		}
	}
}

// do does what the member says.
func (s *supervisor) do(actions []action) {
	for _, a := range actions {
		switch a.Do {
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
			s.setTimer(a.After)
		case doSay:
			if s.speaksForTheRest() {
				s.say(a.Text)
			}
		case doLeave:
			s.left, s.code = true, a.Code
		}
	}
}

func (s *supervisor) say(text string) { fmt.Fprintln(s.spec.Stderr, "ecrec: "+text) }

func (s *supervisor) setTimer(after time.Duration) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.since++
	if after == 0 {
		return
	}
	number := s.since
	s.timer = time.AfterFunc(after, func() {
		s.post(func() {
			if s.since == number { // not set anew in the meantime
				s.do(s.member.expire())
			}
		})
	})
}

// leave ends everything that this supervisor holds.
func (s *supervisor) leave() {
	if s.board != nil {
		s.board.flush()
	}
	close(s.done)
	if s.worker != nil {
		s.worker.killAndWait(leaveLimit)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.council.close()
	if s.board != nil {
		s.board.close()
	}
	s.endMPIRun()
}

// hostIdentity is equal for processes that see the same shared memory.
func hostIdentity() string {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	mounts, _ := os.Readlink("/proc/self/ns/mnt")
	return strings.Join([]string{name, strings.TrimSpace(string(boot)), mounts}, "/")
}
