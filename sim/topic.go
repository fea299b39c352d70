package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// broker holds the topic of a run. It outlives all processes. It takes records slowly, fails, writes some of them twice, and keeps
// a part of the records that a dead process had sent and not seen acknowledged, at once or later. In some runs it breaks its
// promises (harm).
type broker struct {
	c      *cluster
	draw   *rand.Rand
	faulty int // of so many writes one fails; 0: none does
	lost   int64
	logs   []*partitionLog
	harm   harm
	gaps   int // that readers found
	opened int // partitions in later worlds: opening takes a while there
}

// streamSets draws whether a run sends its commits to a topic.
func (s *setting) streamSets(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, purposeStream))
	if s.streams = r.IntN(3) == 0 && !s.movesAll(); !s.streams {
		return nil
	}
	return []string{"stream.to=file:topic", fmt.Sprint("stream.backlog=", 1+r.IntN(1+r.IntN(100_000)))}
}

func newBroker(c *cluster, seed uint64) *broker {
	r := rand.New(rand.NewPCG(seed, purposeBroker))
	return &broker{c: c, draw: r, faulty: []int{0, 4, 20}[r.IntN(3)], harm: drawHarm(seed)}
}

// openTopic is a process's Options.Topic.
func (p *process) openTopic(env.Env, string) (stream.Topic, error) {
	return topic{p.c.broker, p}, nil
}

// topic is the topic in use by a process; nil: by a reader after the run.
type topic struct {
	*broker
	p *process
}

func (t topic) Name() string             { return "topic" }
func (t topic) Close()                   {}
func (t topic) Keeps() error             { return nil }
func (t topic) Base() stream.Topic       { return stream.NewMemory(t.p) }
func (t topic) Partitions() (int, error) { return len(t.logs), nil }

func (t topic) Create(n int) error {
	for len(t.logs) < n {
		t.broker.logs = append(t.broker.logs, &partitionLog{})
	}
	return nil
}

func (t topic) Open(partition int) (stream.Partition, error) {
	if t.p != nil && t.p.at.generation > 1 {
		t.broker.opened++
		if t.p.Sleep(time.Duration(7*t.opened%16) * slowestBroker); t.harm.isDown(t.c.s.Now()) {
			return nil, errBroker
		}
	}
	return &topicPartition{topic: t, log: t.logs[partition]}, nil
}

// topicPartition is a partition in use.
type topicPartition struct {
	topic
	log     *partitionLog
	waiting [][]byte // not acknowledged
}

func (t *topicPartition) Bounds() (first, next int64, err error) {
	t.log.takeLate(t.c.s.Now())
	return 0, int64(len(t.log.records)), nil
}

func (t *topicPartition) fails() bool { return t.faulty > 0 && t.draw.IntN(t.faulty) == 0 }

func (t *topicPartition) Append(records [][]byte) error {
	if t.p.Dead {
		return errDead
	}
	records = slices.Clone(records)
	for i, b := range records {
		records[i] = slices.Clone(b)
	}
	if t.fails() {
		t.lost++
		t.waiting = append(t.waiting, records[:t.draw.IntN(len(records)+1)]...)
		return errBroker
	}
	t.waiting = append(t.waiting, records...)
	return nil
}

func (t *topicPartition) Sync() error {
	t.p.Sleep(time.Duration(t.draw.Int64N(int64(slowestBroker))))
	if t.p.Dead {
		t.leave()
		return errDead
	}
	now := t.c.s.Now()
	if t.fails() || t.harm.isDown(now) {
		t.lost++
		return errBroker
	}
	t.log.takeLate(now)
	if t.faulty > 0 && t.draw.IntN(10) == 0 { // an acknowledgement is lost
		t.log.appendAll(now, t.waiting[:t.harm.doubled(len(t.waiting))])
	}
	t.log.appendAll(now, t.harm.disorder(t.waiting))
	t.waiting = nil
	t.log.bare = false
	t.harm.truncate(t.broker)
	return nil
}

// leave leaves some records on their way to the broker. It is called when a process has died, or closes the partition.
func (t *topicPartition) leave() {
	n := t.draw.IntN(len(t.waiting) + 1)
	t.log.late = append(t.log.late, lateRecords{t.c.s.Now() + t.harm.lateness(), t.waiting[:n]})
	t.waiting = nil
	t.log.takeLate(t.c.s.Now())
}

func (t *topicPartition) Read(from int64, _ int, _ time.Duration) ([]stream.Record, error) {
	return t.log.records[from:], nil
}

func (t *topicPartition) Trim(int64) error { return nil }

// Close may leave records on their way.
func (t *topicPartition) Close() {
	if t.p != nil && len(t.waiting) > 0 {
		t.leave()
	}
}

// partitionLog is the records of a partition, and how they came there.
type partitionLog struct {
	records []stream.Record
	changes []change // in order of time
	late    []lateRecords
	bare    bool // the end was lost, and nothing was acknowledged since
	longest int  // how many records there were before some were lost
}

// change is one change of a partition: a record behind the last one, or the loss of all records from an offset on.
type change struct {
	at    time.Duration
	bytes []byte // nil: a loss
	from  int64
}

// lateRecords are records of a dead process which are still on their way.
type lateRecords struct {
	due  time.Duration
	list [][]byte
}

func (x *change) apply(list []stream.Record) []stream.Record {
	if x.bytes == nil {
		return list[:x.from]
	}
	return append(list, stream.Record{Offset: x.from, Bytes: x.bytes})
}

// isShort reports whether a reader may wait at the end of the partition, although it lacks records that were appended after a loss.
func (l *partitionLog) isShort() bool {
	return l.bare || l.longest > 0 && len(l.records) <= l.longest
}

func (l *partitionLog) addChange(x change) {
	if l.changes = append(l.changes, x); x.bytes == nil {
		l.longest = max(l.longest, len(l.records))
	}
	l.records = x.apply(l.records)
}

func (l *partitionLog) appendAll(at time.Duration, list [][]byte) {
	for _, b := range list {
		l.addChange(change{at, append([]byte{}, b...), int64(len(l.records))})
	}
}

// takeLate appends the records of dead processes that have arrived by now.
func (l *partitionLog) takeLate(now time.Duration) {
	slices.SortStableFunc(l.late, func(a, b lateRecords) int { return int(a.due - b.due) })
	for len(l.late) > 0 && l.late[0].due <= now {
		l.appendAll(l.late[0].due, l.late[0].list)
		l.late = l.late[1:]
	}
}

// checkReaders checks the models that readers of the topic make: one that reads it after the run, and a follower that reads it as it grew.
func (b *broker) checkReaders(o *Outcome, seed uint64, dir string) (err error) {
	steps := b.c.jobResult().Steps
	if o.Cuts, err = b.check(steps, o.Digest); err != nil || o.Cuts == 0 && !b.harm.isDone() {
		return err
	}
	f, err := b.follow(seed, dir, steps)
	o.Followers, o.Bases, o.LostFolders = f.starts, f.basesWritten, f.lostFolders
	o.Harmed, o.Gaps = b.harm.lost+b.harm.mixed, b.gaps
	return err
}

// check replays the topic: the model of each cut has the digest of the commit, and the last one is that of the job's end. It
// returns how many cuts there are.
func (b *broker) check(steps int64, digest string) (cuts int, err error) {
	if len(b.logs) == 0 {
		return 0, nil
	}
	for _, l := range b.logs {
		l.takeLate(never)
	}
	if want := b.c.digests[steps]; want != "" && want != digest {
		return 0, fmt.Errorf("the commit of step %d had digest %s, the job has %s", steps, want, digest)
	}
	b.c.digests[steps] = digest
	last := int64(-1)
	var wrong error
	err = follow.Replay(env.Real(), topic{b, nil}, func(step int64, digest string, _ bool) {
		cuts, last = cuts+1, step
		wrong = errors.Join(wrong, b.checkCut(step, digest))
	})
	if err = errors.Join(wrong, b.checkEnd(err, last, steps, func(l *partitionLog) bool { return l.bare })); err != nil {
		err = fmt.Errorf("the topic: %w", err)
	}
	return cuts, err
}

// checkCut compares the digest of a model with that of the commit.
func (b *broker) checkCut(step int64, digest string) error {
	if want := b.c.digests[step]; want != "" && digest != want {
		return fmt.Errorf("the model of step %d has digest %s, the job had %s", step, digest, want)
	}
	return nil
}

// isGap reports whether a reader has found that records are missing.
func isGap(err error) bool {
	return errors.As(err, new(*stream.Gap)) || errors.As(err, new(*stream.Trimmed))
}

// checkEnd checks how a reader has ended: with the model of the last step, or with a gap if the broker broke a promise. It may wait
// for further records if a partition hides that some are lost.
func (b *broker) checkEnd(err error, last, steps int64, hides func(*partitionLog) bool) error {
	switch {
	case b.harm.isDone() && isGap(err):
		b.gaps++
		return nil
	case err != nil:
		return err
	case last != steps && !slices.ContainsFunc(b.logs, hides):
		return fmt.Errorf("it ends at step %d, the job at step %d", last, steps)
	}
	return nil
}
