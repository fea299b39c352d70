package virtual

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

// Options of a Scheduler.
type Options struct {
	// Draw makes the random numbers of the run. They choose the next of several tasks that are ready at one moment.
	Draw *rand.Rand
	// Yields is how often a task lets others run first although it could continue: once
	// in this many locks of a monitor. 0: Never.
	Yields int
	// Lazy is the percentage of tasks that are delayed: when such a task is drawn,
	// another is usually drawn instead.
	Lazy int
	// SlowestWork is the maximum time of half of all calls of Env.Do. The others take none.
	SlowestWork time.Duration
	// MaxDecisions and MaxTime limit a run, for runs that do not end. 0: there is no limit.
	MaxDecisions int64
	MaxTime      time.Duration
}

// Scheduler runs tasks: goroutines of which one runs at a time. The next one is drawn
// from the random numbers of the run. Time does not advance while any task can run.
//
// A run is a function of these numbers: nothing else determines an order.
type Scheduler struct {
	o         Options
	now       time.Duration
	tasks     []*task // that have not ended, in the order of their start
	ready     []*task
	asleep    []*task // by due time
	current   *task
	begun     int
	decisions int64
	trace     uint64 // hash of all decisions
	alarms    []alarm
	fail      func(what string) error // of Env.Do, if it is set
	ending    bool                    // the tasks are being unwound
	err       error
}

// New returns a scheduler at time 0.
func New(o Options) *Scheduler { return &Scheduler{o: o} }

// Now is the virtual time.
func (s *Scheduler) Now() time.Duration { return s.now }

// Decisions is the number of decisions so far: how often a task was chosen. Trace is a hash of them.
func (s *Scheduler) Decisions() int64 { return s.decisions }
func (s *Scheduler) Trace() uint64    { return s.trace }

// Tasks is the number of tasks that have not ended.
func (s *Scheduler) Tasks() int { return len(s.tasks) }

// FailWork has f called before the work of each Env.Do. Its error ends the work.
func (s *Scheduler) FailWork(f func(what string) error) { s.fail = f }

// alarm is a function called at a decision.
type alarm struct {
	at int64
	do func()
}

// task is one goroutine.
type task struct {
	s     *Scheduler
	proc  *Process
	id    int
	name  string
	where string        // the event it waits for, for reports
	on    *monitor      // the monitor that it waits for a Wake of
	due   time.Duration // when it is ready at the latest; or Never
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	ended bool
	lazy  bool
}

// Never is a time that does not come.
const Never = time.Duration(1<<63 - 1)

// Run runs f as the first task of a process, until no task is left. It fails if all tasks
// wait, if one panics, or if a limit is exceeded.
func (s *Scheduler) Run(p *Process, f func()) error {
	s.startTask(p, "main", f)
	for len(s.tasks) > 0 && s.err == nil {
		s.runNext()
	}
	if s.err != nil {
		s.unwindTasks()
	}
	if e, ok := s.err.(interface{ setWaits(string) }); ok {
		e.setWaits(s.dumpTasks())
	}
	return s.err
}

// runNext runs one task until it waits.
func (s *Scheduler) runNext() {
	for len(s.alarms) > 0 && s.alarms[0].at <= s.decisions {
		a := s.alarms[0]
		s.alarms = s.alarms[1:]
		s.startTask(nil, "fault", a.do)
	}
	if len(s.ready) == 0 && !s.wakeNext() {
		s.err = &Deadlock{}
		return
	}
	i := 0
	if len(s.ready) > 1 {
		i = s.o.Draw.IntN(len(s.ready))
		if s.ready[i].lazy && s.o.Draw.IntN(64) > 0 {
			i = s.o.Draw.IntN(len(s.ready))
		}
	}
	t := s.ready[i]
	last := len(s.ready) - 1
	s.ready[i] = s.ready[last]
	s.ready = s.ready[:last]
	s.decisions++
	s.trace = (s.trace ^ uint64(t.id)) * 0x9e3779b97f4a7c15
	if s.o.MaxDecisions > 0 && s.decisions > s.o.MaxDecisions || s.o.MaxTime > 0 && s.now > s.o.MaxTime {
		s.err = &Endless{Decisions: s.decisions, Now: s.now}
		return
	}
	if t.proc != nil && t.proc.frozen {
		t.proc.held = append(t.proc.held, t)
		return
	}
	s.current = t
	t.next()
	s.current = nil
	if t.ended {
		s.tasks = slices.DeleteFunc(s.tasks, func(x *task) bool { return x == t })
	}
}

// wakeNext advances the time until a task is due, and reports whether there is one.
func (s *Scheduler) wakeNext() bool {
	if len(s.asleep) == 0 {
		return false
	}
	s.now = s.asleep[0].due
	for len(s.asleep) > 0 && s.asleep[0].due <= s.now {
		t := s.asleep[0]
		if t.on != nil {
			t.on.waiting = remove(t.on.waiting, t)
		}
		s.wakeTask(t)
	}
	return true
}

// wakeTask makes a waiting task ready.
func (s *Scheduler) wakeTask(t *task) {
	if t.due != Never {
		s.asleep = remove(s.asleep, t)
	}
	t.on, t.due = nil, Never
	s.ready = append(s.ready, t)
}

func remove(list []*task, t *task) []*task {
	i := slices.Index(list, t)
	return slices.Delete(list, i, i+1)
}

func (s *Scheduler) startTask(n *Process, name string, f func()) {
	if s.ending {
		return
	}
	s.begun++
	t := &task{s: s, proc: n, id: s.begun, name: name, due: Never, lazy: s.o.Draw.IntN(100) < s.o.Lazy}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer t.finishTask()
		f()
	})
	s.tasks = append(s.tasks, t)
	s.ready = append(s.ready, t)
}

// unwound is the panic that ends a task of a failed run.
type unwound struct{}

// finishTask ends a task. A panic ends the run.
func (t *task) finishTask() {
	t.ended = true
	p := recover()
	if _, stopped := p.(unwound); p == nil || stopped || t.s.ending {
		return
	}
	t.s.err = &Panicked{Task: t.describe(), Value: p, Stack: string(debug.Stack())}
}

// parkTask suspends the task until the scheduler runs it again. The caller has recorded
// what the task waits for, or has made it ready.
func (t *task) parkTask(where string) {
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

// MaybeYield lets other tasks run first, once in Options.Yields calls.
func (s *Scheduler) MaybeYield() {
	if s.o.Yields > 0 && s.o.Draw.IntN(s.o.Yields) == 0 {
		s.yieldTurn()
	}
}

// yieldTurn lets other tasks run first.
func (s *Scheduler) yieldTurn() {
	s.ready = append(s.ready, s.current)
	s.current.parkTask("its turn")
}

// sleepUntil suspends the current task until a time.
func (s *Scheduler) sleepUntil(until time.Duration, on *monitor, where string) {
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
	t.parkTask(where)
}

// unwindTasks ends the remaining tasks, so that no goroutine is left behind. It begins
// with the last one started, because a task may use memory that the task that started it
// frees at its end.
func (s *Scheduler) unwindTasks() {
	s.ending = true
	for _, t := range slices.Backward(s.tasks) {
		s.current = t
		t.stop()
	}
}

// AddAlarm runs f as a task at a decision.
func (s *Scheduler) AddAlarm(decision int64, f func()) {
	i, _ := slices.BinarySearchFunc(s.alarms, decision, func(a alarm, at int64) int {
		if a.at <= at {
			return -1
		}
		return 1
	})
	s.alarms = slices.Insert(s.alarms, i, alarm{decision, f})
}

func (t *task) describe() string {
	if t.proc == nil {
		return t.name
	}
	return t.proc.name + ", " + t.name
}

// maxCallers limits the functions reported of a waiting task.
const maxCallers = 12

// callers lists the functions of this module on the stack, innermost first, without those
// in which every task waits.
func callers() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	text, reported := "", 0
	for more := true; more && reported < maxCallers; {
		var f runtime.Frame
		f, more = frames.Next()
		name, ours := strings.CutPrefix(f.Function, "github.com/ecrec/ecrec/")
		if !ours || strings.HasPrefix(name, "sim.") || strings.HasPrefix(name, "internal/env") || strings.HasPrefix(name, "transport.") {
			continue
		}
		text += fmt.Sprintf(" < %s:%d", name, f.Line)
		reported++
	}
	return text
}

// dumpTasks lists what each task waits for, when all tasks have been unwound.
func (s *Scheduler) dumpTasks() string {
	var lines []string
	for _, t := range s.tasks {
		line := fmt.Sprintf("%s waits for %s", t.describe(), t.where)
		if t.where == "" {
			line = t.describe() + " has not started"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// Deadlock is a run in which all tasks wait.
type Deadlock struct{ Waits string }

func (e *Deadlock) setWaits(waits string) { e.Waits = waits }

func (e *Deadlock) Error() string { return "deadlock: all tasks wait:\n" + e.Waits }

// Endless is a run that exceeds a limit.
type Endless struct {
	Decisions int64
	Now       time.Duration
	Waits     string
}

func (e *Endless) setWaits(waits string) { e.Waits = waits }

func (e *Endless) Error() string {
	return fmt.Sprintf("the run did not end within %d decisions and %v:\n%s", e.Decisions, e.Now, e.Waits)
}

// Panicked is a run in which a task panicked.
type Panicked struct {
	Task  string
	Value any
	Stack string
}

func (e *Panicked) Error() string {
	return fmt.Sprintf("%s panicked: %v\n%s", e.Task, e.Value, e.Stack)
}
