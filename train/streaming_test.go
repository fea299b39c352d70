package train

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/stream"
)

// TestRecoveryDoesNotWaitForTheTopic: the broker of a stream is silent while a rank replaces a lost one. Training continues, and so
// does the stream once the broker replies.
func TestRecoveryDoesNotWaitForTheTopic(t *testing.T) {
	sets := []string{"job.ranks=3", "ec.code=xor", "ec.k=2", "ec.commit_every=3", "train.iterations=40"}
	want := reference(t, adagrad, sets...)
	k := &killer{spare: 1, dead: map[int]uint64{}, kills: []kill{{1, 10, probe.Step}}}
	topic, answers := stream.NewMemory(env.Real()), make(chan bool)
	var opened atomic.Int64
	var late atomic.Bool
	o := Options{World: lasting(3, k), Observer: k, Inject: func(rank int, step int64, at probe.Point) error {
		if rank == 0 && step == 30 && at == probe.Step {
			close(answers)
		}
		return k.inject(rank, step, at)
	}, Topic: func(env.Env, string) (stream.Topic, error) {
		if opened.Add(1) > 3 {
			select {
			case <-answers:
			case <-time.After(30 * time.Second):
				late.Store(true)
			}
		}
		return topic, nil
	}}
	renew := o.World.Renew
	o.World.Renew = func(err error) *World {
		w := renew(err)
		if w != nil {
			w.Later = true
		}
		return w
	}
	got := run(t, o, adagrad, append(sets, "stream.to=file:unused")...)
	if len(k.hit) != 1 || got.Digest != want.Digest || late.Load() || opened.Load() != 4 {
		t.Errorf("%v died; digest %s, want %s; the topic was opened %d times; the recovery waited for it: %t", k.hit, got.Digest, want.Digest,
			opened.Load(), late.Load())
	}
	if steps := markers(t, topic); steps[len(steps)-1] != 40 {
		t.Errorf("the topic has the job up to step %d of 40", steps[len(steps)-1])
	}
}

// markers returns the steps of a topic's markers, after one for none.
func markers(t *testing.T, topic stream.Topic) []int64 {
	t.Helper()
	r, err := stream.OpenReader(stream.ReaderOptions{Env: env.Real(), Topic: topic, ToEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	steps := []int64{0}
	for {
		c, err := r.Next(time.Second)
		if err == io.EOF {
			return steps
		}
		if err != nil {
			t.Fatal(err)
		}
		if c != nil {
			steps = append(steps, c.Step)
		}
	}
}

// TestMarkersOfCheckpoints: while a broker takes nothing, commits are merged, but the marker of a checkpoint's step stays.
func TestMarkersOfCheckpoints(t *testing.T) {
	const down, saved, up = 4, 20, 38
	topic, isDown := stream.NewMemory(env.Real()), atomic.Bool{}
	topic.Fault = func(int) error {
		if isDown.Load() {
			return errors.New("planned")
		}
		return nil
	}
	o := Options{Inject: func(rank int, step int64, at probe.Point) error {
		if rank == 0 && at == probe.Step {
			isDown.Store(step >= down && step < up)
		}
		return nil
	}, Topic: func(env.Env, string) (stream.Topic, error) { return topic, nil }}
	run(t, o, adagrad, "job.ranks=3", "ec.code=xor", "ec.k=2", "ec.commit_every=1", "train.iterations=40", "stream.to=file:unused",
		"stream.backlog=2MiB", "checkpoint.dir="+t.TempDir(), fmt.Sprint("checkpoint.every=", saved))
	steps := markers(t, topic)
	if !slices.Contains(steps, saved) || slices.Contains(steps, saved-1) || steps[len(steps)-1] != 40 {
		t.Errorf("the markers are those of steps %v", steps)
	}
}

// TestHoldsEpoch: an epoch at a checkpoint is held if twice the backlog waits on any rank.
func TestHoldsEpoch(t *testing.T) {
	for _, x := range []struct {
		all           []status
		other, atSave bool
	}{
		{[]status{{}, {}}, false, false},
		{[]status{{}, {unsent: true}}, true, false},
		{[]status{{unsent: true, crowded: true}, {unsent: true}}, true, true},
	} {
		if other, atSave := holdsEpoch(x.all, false), holdsEpoch(x.all, true); other != x.other || atSave != x.atSave {
			t.Errorf("%+v: held %t, at a checkpoint %t", x.all, other, atSave)
		}
	}
}
