package train

import (
	"io"
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
	r, err := stream.OpenReader(stream.ReaderOptions{Env: env.Real(), Topic: topic, ToEnd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last := int64(0)
	for {
		c, err := r.Next(time.Second)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c != nil {
			last = c.Step
		}
	}
	if last != 40 {
		t.Errorf("the topic has the job up to step %d of 40", last)
	}
}
