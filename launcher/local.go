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
)

// crew is the launcher of --np: the supervisors that it started, and its own part in
// keeping the job, which begins at its rendezvous.
type crew struct {
	*loop
	place  Place
	spec   Spec
	limits limits
	secret []byte
	board  *board

	address  string // of the rendezvous
	children []*child
	controls []*wire
	left     int // supervisors that live
	revived  int // that were started in place of lost ones
	signals  int
	ended    bool // the job, with code
	code     int
}

// launch starts a supervisor for every place on this machine, passes signals on
// and waits until all are gone.
func launch(p Place, spec Spec, lim limits) (int, error) {
	if p.Meet.Address == "" {
		p.Meet = Meeting{"tcp", "127.0.0.1:0"}
	}
	l, err := p.open(nil, nil)
	if err != nil {
		return exitFailed, err
	}
	c := &crew{loop: newLoop(), place: p, spec: spec, limits: lim, secret: draw(secretBytes), address: l.Addr().String(), code: exitFailed,
		children: make([]*child, p.Processes), controls: make([]*wire, p.Processes)}
	b := newBoard(c.loop, p, spec.shape(p, true), lim, &c.spec, newKeeper(p.Processes))
	b.say, b.expel, b.ended, b.adrift = c.say, c.expel, c.end, c.giveUp
	c.board = b
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	defer c.close()
	if err := b.openDoor(l, c.secret); err != nil {
		return exitFailed, err
	}
	for i := range p.Processes {
		if err := c.startSupervisor(i); err != nil {
			for _, s := range c.children[:i] {
				s.killAndWait(leaveLimit)
			}
			return exitFailed, fmt.Errorf("cannot start process %d of %d: %w", i, p.Processes, err)
		}
	}
	go func() {
		for {
			select {
			case sig := <-signals:
				c.post(func() { c.signal(int(sig.(syscall.Signal))) })
			case <-c.done:
				return
			}
		}
	}()
	c.loop.run(b, func() bool { return c.left == 0 })
	b.decide()
	return c.judge(), nil
}

func (c *crew) startSupervisor(i int) error {
	conn, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := again(c.spec.Args, []*os.File{theirs}, envProcess+"="+strconv.Itoa(i), envProcesses+"="+strconv.Itoa(c.place.Processes),
		envRdzv+"="+c.address, envControl+"=1")
	cmd.Stdout, cmd.Stderr = c.spec.Stdout, c.spec.Stderr
	c.controls[i] = &wire{conn: conn, us: 0, them: 1}
	if c.children[i], err = start(cmd, func(*os.ProcessState) { go c.post(func() { c.lose(i) }) }); err != nil {
		return err
	}
	c.left++
	if err := c.controls[i].send(message{Kind: kindSecret, Secret: c.secret}); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err // one that has ended is heard of by its end
	}
	return nil
}

func (c *crew) say(text string) { fmt.Fprintln(c.spec.Stderr, "ecrec: "+text) }

// lose takes the end of a supervisor.
func (c *crew) lose(i int) {
	c.left--
	if !c.board.leading {
		return
	}
	number := i
	c.board.view(func(j *job) {
		for _, k := range j.Keepers {
			if k.Place == i {
				number = k.Number
			}
		}
	})
	c.board.propose(event{Kind: eventLose, From: number})
}

// expel ends a supervisor that is lost, and starts another in its place after a while: one
// that is lost again and again is waited for longer each time.
func (c *crew) expel(number int) {
	i := 0
	c.board.view(func(j *job) { i = j.Keepers[number].Place })
	c.children[i].killAndWait(leaveLimit)
	if !c.spec.Elastic {
		return
	}
	time.AfterFunc(c.limits.revive<<min(c.revived, maxRevivals), func() { c.post(func() { c.revive(i) }) })
	c.revived++
}

// maxRevivals bounds how often the time until a supervisor is started again doubles.
const maxRevivals = 6

func (c *crew) revive(i int) {
	if c.ended || c.signals > 0 {
		return
	}
	if err := c.startSupervisor(i); err != nil {
		c.say(fmt.Sprintf("cannot start process %d again: %v", i, err))
	}
}

// signal asks all to stop; the second time it ends them.
func (c *crew) signal(number int) {
	c.signals++
	kind := kindStop
	if c.signals > 1 {
		kind = kindKill
		c.killAfter(leaveLimit)
	}
	if c.signals == 2 {
		c.end(message{Kind: kindKill, Signal: number})
	}
	m := message{Kind: kind, Signal: number}
	c.board.hear(c.board.me.Number, m)
	for _, w := range c.controls {
		_ = w.send(m) // one that is gone needs no message
	}
}

// end takes the job's end. The supervisors go by themselves; those that do not are
// killed.
func (c *crew) end(m message) {
	if c.ended {
		return
	}
	c.ended, c.code = true, m.Code
	if m.Kind == kindKill {
		c.code = exitSignal + m.Signal
	}
	c.killAfter(c.limits.end + leaveLimit)
}

func (c *crew) killAfter(d time.Duration) {
	time.AfterFunc(d, func() {
		c.post(func() {
			for _, s := range c.children {
				s.kill()
			}
		})
	})
}

// giveUp ends a job that cannot go on.
func (c *crew) giveUp() {
	if !c.ended {
		var voters []keeper
		c.board.view(func(j *job) { voters, _ = j.voters() })
		c.say(minorityText(slices.DeleteFunc(voters, func(k keeper) bool { return k.Number == c.board.me.Number })))
		c.end(message{Kind: kindEnd, Code: exitFailed})
		for _, s := range c.children {
			s.kill()
		}
	}
}

// judge is the exit code once all supervisors are gone. They know it where the launcher
// does not: it stood still.
func (c *crew) judge() int {
	if !c.ended {
		for _, s := range c.children {
			if code := s.cmd.ProcessState.ExitCode(); code >= 0 {
				c.code = code
			}
		}
		if c.code != 0 {
			c.say(fmt.Sprintf("the job has ended with exit code %d while the launcher stood still; %s says why", c.code, c.spec.log(0)))
		}
	}
	return c.code
}

func (c *crew) close() {
	close(c.done)
	c.board.close()
}
