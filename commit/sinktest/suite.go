package sinktest

import (
	"testing"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/transport"
)

// Config describes the sink to test. Only Open is required.
type Config struct {
	// Open makes a sink that holds nothing.
	Open commit.SinkFactory
	// Rows returns the rows that a sink holds as of its last commit, by slot, as a
	// reader of its file or stream gets them. Rows that have not changed since Begin may be
	// missing.
	Rows func(t *testing.T, s commit.Sink) map[int32][]byte
	// Dense returns the dense part that a sink holds as of its last commit, once there is a
	// commit after Begin.
	Dense func(t *testing.T, s commit.Sink) []byte
	// Break makes all later writes of a sink fail. Without it the test of errors is skipped.
	Break func(s commit.Sink)
	// Replace makes a sink that continues with the store of a lost one, for the same rank. It is
	// set for sinks whose store survives the rank; without it their test is skipped.
	Replace func(lost commit.Sink, o commit.SinkOptions) (commit.Sink, error)
	// Ranks is how many ranks the sinks need; default 1.
	Ranks int
	// Join has a sink enter a world, if it uses the network. The suite calls leave when the
	// world has ended.
	Join func(s commit.Sink, w World) (leave func())
}

// World is a rank's part in a world.
type World struct {
	Comm     *collectives.Comm // that is idle while the sink works in the background
	Endpoint transport.Endpoint
	Device   kernels.Device
	Rows     *shard.Shard
}

// Test runs the suite.
func Test(t *testing.T, c Config) {
	for name, test := range map[string]func(*testing.T, *Config){
		"commits":      testCommits,
		"roll back":    testRollBack,
		"roll forward": testRollForward,
		"begin again":  testBeginAgain,
		"replaced":     testReplaced,
		"no rows":      testNoRows,
		"close early":  testCloseEarly,
		"errors":       testErrors,
	} {
		t.Run(name, func(t *testing.T) { test(t, &c) })
	}
}

// testCommits: the sink holds the rows of each commit, whether the rank keeps pre-images or
// hashes.
func testCommits(t *testing.T, c *Config) {
	for name, rollBack := range map[string]bool{"hashes": false, "pre-images": true} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, c, rollBack)
			j.check()
			for range 8 {
				j.train(2)
				j.check() // commits lag behind the steps
			}
			j.settle()
			j.check()
			j.train(1)
			j.settle() // an epoch of one step
			j.check()
		})
	}
}

// testRollBack: sets that are not committed are dropped, and their steps are sealed again
// with other rows.
func testRollBack(t *testing.T, c *Config) {
	j := newJob(t, c, true)
	for n := range int64(3 * every) {
		j.train(every + n%4) // at every + 1, a set is sealed and not committed
		j.roll(j.members[0].commits.Committed())
		j.check()
	}
	j.train(2 * every)
	j.settle()
	j.check()
}

// testRollForward: a set that the sink is prepared for is committed by Roll, since another rank
// has committed it before the world ended.
func testRollForward(t *testing.T, c *Config) {
	j := newJob(t, c, true)
	j.train(every + 1) // the seal of the first epoch
	for _, m := range j.members {
		must(t, m.watch.Wait())
	}
	j.roll(every)
	j.check()
	j.train(every)
	j.settle()
	j.check()
}

// roll ends the world, rolls to a commit, and enters the next world.
func (j *job) roll(to int64) {
	j.t.Helper()
	j.leaveWorld()
	for _, m := range j.members {
		must(j.t, m.commits.Roll(to))
	}
	j.done = to
	j.enterWorld()
}

// testBeginAgain: Begin drops sealed sets, and steps may restart anywhere.
func testBeginAgain(t *testing.T, c *Config) {
	j := newJob(t, c, true)
	j.train(2*every + 1)
	j.roll(j.members[0].commits.Committed())
	for _, m := range j.members { // which restore a checkpoint
		other := m.allRows()
		for i := range other {
			other[i] ^= 0x55
		}
		must(t, m.replaceRows(other))
		m.commits.Begin(100, false)
		m.at[0] = ends{rows: m.allRows()}
		m.at[100], m.began = m.at[0], 100
	}
	j.done = 100
	j.check()
	j.train(2 * every)
	j.settle()
	j.check()
}

// testReplaced: a rank is lost after it sealed a set that another rank has committed, or that no
// rank has. The store of its successor has the rows of the commit at which that one begins.
func testReplaced(t *testing.T, c *Config) {
	if c.Replace == nil {
		t.Skip("skipped: no Config.Replace")
	}
	j := newJob(t, c, true)
	for _, ahead := range []int64{0, every, every} { // the set is dropped, then it is committed
		j.train(every + 1)
		for _, m := range j.members {
			must(t, m.watch.Wait())
		}
		j.replace(j.members[0].commits.Committed() + ahead)
		j.check()
	}
	j.train(2 * every)
	j.settle()
	j.check()
}

// replace ends the world, replaces all ranks by new ones that begin at a commit, and enters the
// next world.
func (j *job) replace(at int64) {
	j.t.Helper()
	j.leaveWorld()
	for _, m := range j.members {
		lost := m.sink
		m.commits.Close()
		m.openSink(j, func(o commit.SinkOptions) (commit.Sink, error) { return j.c.Replace(lost, o) })
		must(j.t, m.replaceRows(m.at[at].rows))
		m.commits.Begin(at, false)
		m.began = at
	}
	j.done = at
	j.enterWorld()
}

// testNoRows: a rank that owns no rows seals empty sets.
func testNoRows(t *testing.T, c *Config) {
	if c.Ranks > 1 {
		t.Skip("skipped: the sink needs the rows of several ranks")
	}
	j := &job{t: t, c: c}
	j.members = []*member{j.newMember(0, placement.New([]int64{20}, 1), -1, false)}
	j.enterWorld()
	j.train(2*every + 1)
	j.settle()
	j.check()
}

// testCloseEarly: a sink that is closed with a sealed set, perhaps in the background, ends. The
// harness closes each sink twice.
func testCloseEarly(t *testing.T, c *Config) {
	for _, steps := range []int64{0, every, every + 1} {
		newJob(t, c, true).train(steps)
	}
}

// testErrors: an error of the sink is returned by Seal or Wait, before the set is prepared.
func testErrors(t *testing.T, c *Config) {
	if c.Break == nil {
		t.Skip("skipped: no Config.Break")
	}
	j := newJob(t, c, true)
	j.train(every)
	m := j.members[0]
	c.Break(m.sink)
	m.record(j.done)
	err := m.commits.Seal(j.done, m.dense)
	if err == nil {
		err = m.sink.Wait()
	}
	if err == nil {
		t.Error("a sink whose writes fail returned no error from Seal and Wait")
	}
	if got := m.sink.Prepared(); got >= j.done {
		t.Errorf("Prepared() = %d after a write failed, want less than %d", got, j.done)
	}
}
