package derive

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// TestRestarts: followers and their Rows are ended at any moment, also within a batch, with checkpoints that
// are behind the topic. At every marker the rows are right, and a follower that has all of the topic sends nothing.
func TestRestarts(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "60")
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		to, dir := stream.NewMemory(env.Real()), t.TempDir()
		for at := int64(5); at <= 60; at += 5 * int64(r.IntN(3)) {
			from := dir
			if r.IntN(3) == 0 {
				from = t.TempDir() // from the beginning
			}
			broken, faults := false, rand.New(rand.NewPCG(seed, r.Uint64())) // of the goroutine of the sink
			to.Fault = func(int) error {
				if broken = broken || faults.IntN(200) == 0; broken {
					return errors.New("broken")
				}
				return nil
			}
			s := open(t, to, Float32, []int64{0, 3000}[r.IntN(2)])
			if f := newestOf(t, from); f < at {
				s.follow(t, topic, from, at, false, func(*follow.View) { time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond) })
			}
			s.Close()
			to.Fault = nil
			var c consumer
			c.read(t, to, func() { c.compare(t, saved, 0) })
		}
		s := open(t, to, Float32, 0)
		s.followTo(t, topic, t.TempDir(), 60)
		s.Close()
		var c consumer
		c.read(t, to, func() { c.compare(t, saved, 0) })
		if c.Marker == nil || c.Marker.Step != 60 {
			t.Fatalf("seed %d: the last marker is %+v", seed, c.Marker)
		}
		_, end := bounds(t, to)
		s = open(t, to, Float32, 0)
		s.followTo(t, topic, t.TempDir(), 60)
		s.Close()
		if _, again := bounds(t, to); again != end {
			t.Errorf("seed %d: %d records were sent again", seed, again-end)
		}
	}
}

func newestOf(t *testing.T, dir string) (step int64) {
	t.Helper()
	if name := checkpoint.Newest(dir); name != "" {
		c, err := checkpoint.Open(env.Real(), filepath.Join(dir, filepath.Base(name)))
		must(t, err)
		return c.Step
	}
	return -1
}

func bounds(t *testing.T, topic stream.Topic) (first, next int64) {
	t.Helper()
	p, err := topic.Open(0)
	must(t, err)
	defer p.Close()
	first, next, err = p.Bounds()
	must(t, err)
	return first, next
}

// TestSlowTopic: a topic that takes nothing for some time does not delay the follower. Rows are merged, and markers skipped; a row that
// changed often is sent once.
func TestSlowTopic(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "100")
	to := stream.NewMemory(env.Real())
	var dead atomic.Bool
	to.Fault = func(int) error {
		if dead.Load() {
			return errors.New("no broker")
		}
		return nil
	}
	s, last := open(t, to, Float32, 0), int64(0)
	dead.Store(true)
	began := time.Now()
	s.followTo(t, topic, t.TempDir(), 100, func(v *follow.View) {
		if last = v.Step; v.Step == 100 {
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the follower took %v", d)
			}
			dead.Store(false)
		}
	})
	var c consumer
	markers := 0
	c.read(t, to, func() {
		c.compare(t, saved, 0)
		markers++
	})
	// The first batch has begun before the topic was dead, or waits for it.
	if _, n := bounds(t, to); c.Marker.Step != last || markers > 2 || n > 2*c.Marker.Total+4 {
		t.Errorf("%d markers, the last at step %d of %d; %d records, the model has %d rows", markers, c.Marker.Step, last, n, c.Marker.Total)
	}
}

// TestFinal: after an error that ends the use of the topic it is opened again, and all rows are sent. So they are if another program
// writes to it.
func TestFinal(t *testing.T) {
	topic, saved := stream.NewMemory(env.Real()), t.TempDir()
	trainTo(t, topic, saved, "30")
	to := stream.NewMemory(env.Real())
	s := open(t, to, Float16, 0)
	failing := atomic.Bool{}
	to.Fault = func(int) error {
		if failing.CompareAndSwap(true, false) {
			return &stream.Final{Err: errors.New("gone")}
		}
		return nil
	}
	other, err := stream.OpenKeyed(to, 0)
	must(t, err)
	defer other.Close()
	s.followTo(t, topic, t.TempDir(), 30, s.waitSent, func(v *follow.View) {
		switch v.Step {
		case 10:
			failing.Store(true)
		case 20:
			_, err := other.AppendKeyed([]stream.Keyed{{Key: []byte("emb_l.1.weight/3"), Value: make([]byte, 10)}})
			must(t, errors.Join(err, other.Sync()))
		}
	})
	var c consumer
	headers := 0
	to.Change(0, func(list []stream.Record) []stream.Record {
		for _, r := range list {
			if k, err := unpacked(r); err == nil && k == keyBegin {
				headers++
			}
		}
		return list
	})
	errs := 0.0
	c.read(t, to, func() { errs = max(errs, c.Marker.MaxError) })
	c.compare(t, saved, errs)
	if headers != 3 || c.Marker.Step != 30 || len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "another program") {
		t.Errorf("%d headers, the last marker is of step %d, warnings %v", headers, c.Marker.Step, s.warnings)
	}
}

// unpacked is the key of a record of a topic that has none.
func unpacked(r stream.Record) (string, error) {
	n := int(binary.LittleEndian.Uint32(r.Bytes[4:]))
	return string(r.Bytes[8 : 8+n]), nil
}

// TestFork: a run that continues with other settings begins the rows again, and so does another encoding.
func TestFork(t *testing.T) {
	topic, saved, dir := stream.NewMemory(env.Real()), t.TempDir(), t.TempDir()
	to := stream.NewMemory(env.Real())
	trainTo(t, topic, saved, "20")
	s := open(t, to, Float32, 0)
	s.followTo(t, topic, dir, 20)
	s.Close()
	trainFrom(t, filepath.Join(saved, "step-000000000020"), topic, saved, "30", "optimizer.sparse.lr=0.5")
	s = open(t, to, Float32, 0)
	s.followTo(t, topic, dir, 30)
	s.Close()
	var c consumer
	c.read(t, to, nil)
	c.compare(t, saved, 0)
	s = open(t, to, Int8, 0)
	s.followTo(t, topic, dir, 30)
	s.Close()
	c.read(t, to, nil)
	c.compare(t, saved, c.Marker.MaxError)
	if c.Marker.As != Int8 || c.Marker.Step != 30 {
		t.Errorf("the last marker is %+v", c.Marker)
	}
}
