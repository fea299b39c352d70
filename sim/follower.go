package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/stream"
)

// follower is a follower of a run's topic, which is killed and restarted at random moments. It runs after the job, in a
// schedule and a time of its own, in which the topic changes as it did for the job. So it changes nothing in the run. Each
// partition reaches it with a delay of its own: epochs arrive in another order than they were written. Some followers write bases and trim
// the topic; some lose their folder with a process. At the end a new follower reads the rest of the topic.
type follower struct {
	b     *broker
	s     *virtual.Scheduler
	draw  *rand.Rand
	o     follow.Options
	parts []*readLog
	bases *basesLog
	end   time.Duration // when it has had time to read everything
	kills []time.Duration
	work  int // after how many operations of saves it is killed; 0: it is not

	present        *virtual.Process
	starts, killed int
	lostFolders    int
	basesWritten   int
	fromBase       bool  // the present process began with a base, and nothing has followed on it
	applied        int64 // the step of the model of the present process; -1: it has none
	published      int64 // the step of the newest checkpoint that was reported; -1: there is none
	err            error // the first failed check
}

// readLog is a partition as the follower sees it.
type readLog struct {
	changes []change // that it has not seen
	delay   time.Duration
	first   int64 // records before were trimmed
	all     []stream.Record
}

// The most kills of a follower of each kind, the operations of saves before the next kill, the longest delay of a partition, the
// longest time between two checkpoints, and the time that a follower has after the last change of the topic. A kill usually comes
// while it has something to do.
const (
	mostKills    = 4
	workSpread   = 40
	slowestRead  = 2 * time.Second
	rarestSave   = 3 * time.Second
	slowestStart = time.Second
	lastRead     = 5 * time.Second
)

// follow runs a follower in a folder, and checks all models that it publishes.
func (b *broker) follow(seed uint64, dir string, steps int64) (f *follower, err error) {
	r := rand.New(rand.NewPCG(seed, purposeFollower))
	f = &follower{b: b, s: newScheduler(r, maxDecisions), draw: r, applied: -1, published: -1}
	f.o = follow.Options{Dir: dir, At: follow.Latest, Every: time.Duration(r.Int64N(int64(rarestSave))), Full: r.IntN(4) == 0, Keep: r.IntN(3),
		Trim: r.IntN(2) == 0}
	for _, l := range b.logs {
		x := &readLog{changes: l.changes}
		if r.IntN(2) == 0 {
			x.delay = time.Duration(r.Int64N(int64(slowestRead)))
		}
		if n := len(l.changes); n > 0 {
			f.end = max(f.end, l.changes[n-1].at)
		}
		f.parts = append(f.parts, x)
	}
	for range r.IntN(mostKills + 1) {
		f.kills = append(f.kills, time.Duration(r.Int64N(int64(f.end+slowestRead))))
	}
	slices.Sort(f.kills)
	f.end += slowestRead + lastRead
	f.drawWork()
	f.s.FailWork(f.countWork)
	f.bases = &basesLog{stream.NewMemory(f.s.NewProcess("topic of bases")), f.draw, b.faulty}
	defer os.RemoveAll(dir)
	supervisor := f.s.NewProcess("follower's supervisor")
	var last, anew error
	err = f.s.Run(supervisor, func() {
		last = f.supervise()
		f.work = 0
		anew = f.readAnew(supervisor, steps)
	})
	if err = errors.Join(err, f.err); err == nil {
		err = errors.Join(f.checkLast(last, steps), f.checkFolder(), anew)
	}
	return f, err
}

// drawWork draws whether a kill interrupts a save, and which of its operations.
func (f *follower) drawWork() {
	if f.work = 0; f.killed < 2*mostKills && f.draw.IntN(2) == 0 {
		f.work = 1 + f.draw.IntN(workSpread)
	}
}

// countWork kills the present process before an operation of a save, if that is due.
func (f *follower) countWork(what string) error {
	if f.work == 0 || !slices.ContainsFunc(diskWork, func(work string) bool { return strings.HasPrefix(what, work) }) {
		return nil
	}
	if f.work--; f.work > 0 {
		return nil
	}
	f.present.Dead = true
	return errDead
}

// checkLast checks how the last process ended.
func (f *follower) checkLast(err error, steps int64) error {
	if err = f.b.checkEnd(err, f.applied, steps, (*partitionLog).isShort); err != nil {
		return fmt.Errorf("the follower: %w", err)
	}
	return nil
}

// supervise starts the follower again whenever it was killed, and once more if it ended with an error. It returns how the last one ended.
func (f *follower) supervise() (err error) {
	for again := true; ; {
		p := f.s.NewProcess(fmt.Sprintf("follower (start %d)", f.starts))
		f.starts++
		f.present = p
		err = f.runOnce(p)
		switch {
		case p.Dead:
			f.killed++
			f.drawWork()
			if f.draw.IntN(5) == 0 {
				if err := f.dropFolder(); err != nil {
					return err
				}
			}
		case err == nil || !again || f.err != nil:
			return err
		default:
			again = false
		}
		p.SleepFor(time.Duration(f.draw.Int64N(int64(slowestStart))), "to start the follower again")
	}
}

// dropFolder loses the folder of the follower, as with its machine. The next process begins with a base, or with the beginning of the topic.
func (f *follower) dropFolder() error {
	f.lostFolders++
	f.published = -1
	return os.RemoveAll(f.o.Dir)
}

// readAnew follows the topic with a new follower, which is not killed and writes no bases. It begins with the newest base, if the topic has
// been trimmed. It must get the model of the last step.
func (f *follower) readAnew(p *virtual.Process, steps int64) error {
	o := f.o
	o.Env, o.Topic, o.Dir, o.Trim = p, readTopic{f, p}, o.Dir+"-anew", false
	defer os.RemoveAll(o.Dir)
	until := max(f.end, f.s.Now()+slowestRead+lastRead)
	o.Stop = func() bool { return f.s.Now() > until }
	var wrong error
	o.Report = func(x follow.Progress) {
		if x.Digest != "" {
			wrong = cmp.Or(wrong, f.b.checkCut(x.Step, x.Digest))
		}
	}
	last := int64(-1)
	g, err := follow.Open(o)
	if err == nil {
		err = g.Run()
		last = g.Step()
		g.Close()
	}
	if err = cmp.Or(wrong, f.b.checkEnd(err, last, steps, (*partitionLog).isShort)); err != nil {
		return fmt.Errorf("a new follower: %w", err)
	}
	return nil
}

// runOnce runs a process until it ends or is killed.
func (f *follower) runOnce(p *virtual.Process) (err error) {
	over := p.Monitor("end of the follower")
	ended := false
	p.Go("main", func() {
		err = f.followOn(p)
		over.Lock()
		ended = true
		over.Wake()
		over.Unlock()
	})
	over.Lock()
	defer over.Unlock()
	for !ended {
		if len(f.kills) > 0 && f.kills[0] <= f.s.Now() {
			f.kills = f.kills[1:]
			p.Dead = true
		}
		if len(f.kills) > 0 && !p.Dead {
			over.WaitUntil(f.kills[0])
		} else {
			over.Wait()
		}
	}
	return err
}

// followOn is the main function of a process.
func (f *follower) followOn(p *virtual.Process) error {
	o := f.o
	o.Env, o.Topic, o.Session = p, readTopic{f, p}, f.draw.Uint64()
	until := max(f.end, f.s.Now()+slowestRead+lastRead)
	o.Stop = func() bool { return p.Dead || f.s.Now() > until }
	o.Report = func(x follow.Progress) {
		if !p.Dead {
			f.noteProgress(x)
		}
	}
	g, err := follow.Open(o)
	if err != nil {
		return err
	}
	defer g.Close()
	f.fromBase = g.FromBase()
	if f.applied = g.Step(); !p.Dead && f.applied < f.newest() {
		f.failWith(fmt.Errorf("it begins with step %d, although the checkpoint of step %d is there", f.applied, f.newest()))
	}
	return g.Run()
}

func (f *follower) failWith(err error) {
	if f.err == nil {
		f.err = fmt.Errorf("the follower: %w", err)
	}
}

// noteProgress checks a model that was applied, or a checkpoint that was published.
func (f *follower) noteProgress(x follow.Progress) {
	if err := f.b.checkCut(x.Step, x.Digest); err != nil && x.Digest != "" { // the job had none
		f.failWith(err)
	}
	switch {
	case x.Base != "":
		f.basesWritten++
		return
	case x.Path != "":
		f.published = x.Step
	case x.Step <= f.applied && f.fromBase && f.b.harm.isDone(): // a base that the topic does not continue any more was left
	case x.Step <= f.applied:
		f.failWith(fmt.Errorf("step %d follows on step %d", x.Step, f.applied))
	}
	f.applied, f.fromBase = x.Step, false
}

// folders are the checkpoints in the folder. newest is the step of the newest one, or of the last one that was published.
func (f *follower) folders() []string {
	names, err := filepath.Glob(filepath.Join(f.o.Dir, "step-*"))
	if err != nil {
		panic(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, ".tmp-") }) // of a save that was killed
}

func (f *follower) newest() (step int64) {
	step = f.published
	for _, name := range f.folders() {
		var n int64
		if _, err := fmt.Sscanf(filepath.Base(name), "step-%d", &n); err == nil {
			step = max(step, n)
		}
	}
	return step
}

// checkFolder checks all checkpoints in the folder. The newest one that was published must be there.
func (f *follower) checkFolder() error {
	there := f.published < 0
	for _, name := range f.folders() {
		c, err := checkpoint.Open(env.Real(), name)
		if err != nil {
			return fmt.Errorf("the follower: %w", err)
		}
		got, bad := c.Verify()
		if err := errors.Join(append(bad, f.b.checkCut(c.Step, got.String()), f.b.checkCut(c.Step, c.Digest))...); err != nil {
			return fmt.Errorf("the follower: %s: %w", filepath.Base(name), err)
		}
		there = there || c.Step >= f.published
	}
	if !there {
		return fmt.Errorf("the follower: the checkpoint of step %d was published, and is not there", f.published)
	}
	return nil
}

// readTopic is the topic as a process of a follower sees it.
type readTopic struct {
	f *follower
	p *virtual.Process
}

func (t readTopic) Name() string             { return "topic" }
func (t readTopic) Close()                   {}
func (t readTopic) Partitions() (int, error) { return len(t.f.parts), nil }
func (t readTopic) Create(int) error         { return errors.ErrUnsupported }
func (t readTopic) Keeps() error             { return nil }
func (t readTopic) Base() stream.Topic       { return baseTopic{t.f.bases, t.p} }

func (t readTopic) Open(partition int) (stream.Partition, error) {
	return &readPartition{t, partition, t.f.parts[partition]}, nil
}

// readPartition is one of its partitions.
type readPartition struct {
	readTopic
	number int
	log    *readLog
}

// see brings the partition to the present time.
func (l *readLog) see(now time.Duration) (next int64) {
	for len(l.changes) > 0 && l.changes[0].at+l.delay <= now {
		l.all = l.changes[0].apply(l.all)
		l.changes = l.changes[1:]
	}
	return int64(len(l.all))
}

func (t *readPartition) Bounds() (first, next int64, err error) {
	next = t.log.see(t.f.s.Now())
	return min(t.log.first, next), next, nil
}

func (t *readPartition) Append([][]byte) error { return errors.ErrUnsupported }
func (t *readPartition) Sync() error           { return errors.ErrUnsupported }
func (t *readPartition) Close()                {}

// pollEvery is the time between two looks at a partition without a new record.
const pollEvery = 50 * time.Millisecond

func (t *readPartition) Read(from int64, _ int, wait time.Duration) ([]stream.Record, error) {
	for until := t.f.s.Now() + wait; ; {
		first, next, _ := t.Bounds()
		switch {
		case t.p.Dead:
			return nil, errDead
		case from < first || from > next:
			return nil, &stream.Trimmed{Partition: t.number, Offset: from, First: first, After: next}
		case from < next:
			return slices.Clone(t.log.all[from : from+1+t.f.draw.Int64N(next-from)]), nil
		case t.f.s.Now() >= until:
			return nil, nil
		}
		t.p.Sleep(min(pollEvery, until-t.f.s.Now()))
	}
}

func (t *readPartition) Trim(before int64) error {
	if t.p.Dead {
		return errDead
	}
	if _, next, _ := t.Bounds(); before > next {
		return errors.New("there is no such offset")
	}
	t.log.first = max(t.log.first, before)
	return nil
}
