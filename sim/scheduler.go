package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Limits of a run, for what never ends. A run of the sizes that are drawn takes some
// 100,000 decisions.
const (
	maxDecisions = 20_000_000
	maxTime      = 10 * time.Minute // virtual
)

// scheduler runs tasks, which are goroutines that take turns: one at a time has the
// baton, and who gets it next is drawn from the seed. Time stands while anybody can run.
//
// What runs is a function of the seed: nothing else decides an order.
type scheduler struct {
	draw *rand.Rand
	// yields is how often a task that could go on lets others go first: once in so
	// many times that it takes a monitor.
	yields int
	// lazy is how many of 100 tasks get their turn late: where they are drawn, mostly
	// another is.
	lazy int

	now       time.Duration
	tasks     []*task // that have not ended, in the order of their beginning
	ready     []*task
	asleep    []*task // by time due
	current   *task
	begun     int
	decisions int64
	trace     uint64 // hash of all decisions
	alarms    []alarm
	ending    bool // tasks unwind
	err       error
}

// alarm is what happens at a decision, whatever is going on then.
type alarm struct {
	at int64
	do func()
}

// task is one goroutine.
type task struct {
	s     *scheduler
	node  *node
	id    int
	name  string
	where string        // what it waits for
	on    *monitor      // that it waits to be woken on
	due   time.Duration // when it goes on at the latest; never
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	ended bool
	lazy  bool
}

const never = time.Duration(1<<63 - 1)

// newScheduler makes one for a seed.
func newScheduler(seed uint64) *scheduler {
	s := &scheduler{draw: rand.New(rand.NewPCG(seed, purposeSchedule))}
	s.yields = []int{2, 8, 64}[s.draw.IntN(3)]
	s.lazy = []int{0, 5, 30}[s.draw.IntN(3)]
	return s
}

// run runs f as the first task of a node, until no task is left. It fails where tasks
// wait and nobody can go on, where one panics, and where there is no end.
func (s *scheduler) run(n *node, f func()) error {
	s.begin(n, "main", f)
	for len(s.tasks) > 0 && s.err == nil {
		s.turn()
	}
	if s.err != nil {
		s.end()
	}
	if e, ok := s.err.(interface{ tell(string) }); ok {
		e.tell(s.dump())
	}
	return s.err
}

// turn gives the baton to one task, until it gives it back.
func (s *scheduler) turn() {
	for len(s.alarms) > 0 && s.alarms[0].at <= s.decisions {
		a := s.alarms[0]
		s.alarms = s.alarms[1:]
		s.begin(nil, "fault", a.do)
	}
	if len(s.ready) == 0 && !s.wakeNext() {
		s.err = &Deadlock{}
		return
	}
	i := 0
	if len(s.ready) > 1 {
		i = s.draw.IntN(len(s.ready))
		if s.ready[i].lazy && s.draw.IntN(64) > 0 {
			i = s.draw.IntN(len(s.ready))
		}
	}
	t := s.ready[i]
	last := len(s.ready) - 1
	s.ready[i] = s.ready[last]
	s.ready = s.ready[:last]
	s.decisions++
	s.trace = (s.trace ^ uint64(t.id)) * 0x9e3779b97f4a7c15
	if s.decisions > maxDecisions || s.now > maxTime {
		s.err = &Endless{Decisions: s.decisions, Now: s.now}
		return
	}
	if t.node != nil && t.node.frozen {
		t.node.held = append(t.node.held, t)
		return
	}
	s.current = t
	t.next()
	s.current = nil
	if t.ended {
		s.tasks = slices.DeleteFunc(s.tasks, func(x *task) bool { return x == t })
	}
}

// wakeNext lets time pass until somebody is due, and reports whether anybody is.
func (s *scheduler) wakeNext() bool {
	if len(s.asleep) == 0 {
		return false
	}
	s.now = s.asleep[0].due
	for len(s.asleep) > 0 && s.asleep[0].due <= s.now {
		t := s.asleep[0]
		if t.on != nil {
			t.on.waiting = remove(t.on.waiting, t)
		}
		s.wake(t)
	}
	return true
}

// wake makes a task that waits ready.
func (s *scheduler) wake(t *task) {
	if t.due != never {
		s.asleep = remove(s.asleep, t)
	}
	t.on, t.due = nil, never
	s.ready = append(s.ready, t)
}

func remove(list []*task, t *task) []*task {
	i := slices.Index(list, t)
	return slices.Delete(list, i, i+1)
}

func (s *scheduler) begin(n *node, name string, f func()) {
	if s.ending {
		return
	}
	s.begun++
	t := &task{s: s, node: n, id: s.begun, name: name, due: never, lazy: s.draw.IntN(100) < s.lazy}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer t.finish()
		f()
	})
	s.tasks = append(s.tasks, t)
	s.ready = append(s.ready, t)
}

// unwound ends a task of a run that has failed.
type unwound struct{}

// finish ends a task; a panic ends the run.
func (t *task) finish() {
	t.ended = true
	p := recover()
	if _, stopped := p.(unwound); p == nil || stopped || t.s.ending {
		return
	}
	t.s.err = &Panicked{Task: t.describe(), Value: p, Stack: string(debug.Stack())}
}

// park gives the baton back. What the task waits for has been noted; nothing is where
// it is ready.
func (t *task) park(where string) {
	if t.s.ending {
		panic(unwound{})
	}
	t.where = where
	if !t.yield(struct{}{}) {
		t.where = where + callers()
		panic(unwound{})
	}
	t.where = ""
}

// pass lets others go first.
func (s *scheduler) pass() {
	s.ready = append(s.ready, s.current)
	s.current.park("its turn")
}

// sleep parks the current task until a time.
func (s *scheduler) sleep(until time.Duration, on *monitor, where string) {
	t := s.current
	t.due = until
	i, _ := slices.BinarySearchFunc(s.asleep, until, func(x *task, d time.Duration) int {
		if x.due <= d {
			return -1
		}
		return 1
	})
	s.asleep = slices.Insert(s.asleep, i, t)
	if on != nil {
		t.on = on
		on.waiting = append(on.waiting, t)
	}
	t.park(where)
}

// end unwinds the tasks that are left, so that no goroutine stays behind: the last begun
// first, for what a task frees at its end those use that it began.
func (s *scheduler) end() {
	s.ending = true
	for _, t := range slices.Backward(s.tasks) {
		s.current = t
		t.stop()
	}
}

// at has f run as a task once so many decisions have been made.
func (s *scheduler) at(decision int64, f func()) {
	i, _ := slices.BinarySearchFunc(s.alarms, decision, func(a alarm, at int64) int {
		if a.at <= at {
			return -1
		}
		return 1
	})
	s.alarms = slices.Insert(s.alarms, i, alarm{decision, f})
}

func (t *task) describe() string {
	if t.node == nil {
		return t.name
	}
	return t.node.name + ", " + t.name
}

// maxCallers bounds how many functions are told of a task that waits.
const maxCallers = 12

// callers names the functions of this module that have called, innermost first; those
// that everything waits in are left out.
func callers() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	text, told := "", 0
	for more := true; more && told < maxCallers; {
		var f runtime.Frame
		f, more = frames.Next()
		name, ours := strings.CutPrefix(f.Function, "github.com/ecrec/ecrec/")
		if !ours || strings.HasPrefix(name, "sim.") || strings.HasPrefix(name, "internal/env.") || strings.HasPrefix(name, "transport.") {
			continue
		}
		text += fmt.Sprintf(" < %s:%d", name, f.Line)
		told++
	}
	return text
}

// dump lists who waits where, when all tasks have unwound.
func (s *scheduler) dump() string {
	var lines []string
	for _, t := range s.tasks {
		line := fmt.Sprintf("%s waits for %s", t.describe(), t.where)
		if t.where == "" {
			line = t.describe() + " has not begun"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// Deadlock is a run in which everybody waits.
type Deadlock struct{ Waits string }

func (e *Deadlock) tell(waits string) { e.Waits = waits }

func (e *Deadlock) Error() string { return "nobody can go on:\n" + e.Waits }

// Endless is a run that passes the limits.
type Endless struct {
	Decisions int64
	Now       time.Duration
	Waits     string
}

func (e *Endless) tell(waits string) { e.Waits = waits }

func (e *Endless) Error() string {
	return fmt.Sprintf("no end after %d decisions and %v:\n%s", e.Decisions, e.Now, e.Waits)
}

// Panicked is a run in which a task panicked.
type Panicked struct {
	Task  string
	Value any
	Stack string
}

func (e *Panicked) Error() string { return fmt.Sprintf("%s panics: %v\n%s", e.Task, e.Value, e.Stack) }
