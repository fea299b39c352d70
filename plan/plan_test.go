package plan_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/plan"
)

// job is a job of some ranks, each of which trains and owns rows.
func job(t *testing.T, ranks int) plan.Job {
	t.Helper()
	layout, err := ec.NewLayout(ranks, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Job{Ranks: ranks, Trainers: ranks, Place: placement.New([]int64{50, 3000, 100_000}, ranks), Width: 8, Stride: 9,
		Split: true, DelayedSync: true, Buckets: []int{300_000, 1000}, Coded: true, Layout: layout, Commits: true, CommitEvery: 5, StatusBytes: 24}
}

// draw reads slices of drawn rows, the same ones for the same step and trainer.
func draw(j plan.Job) func(step int64, trainer int, dst []int64) ([]int64, error) {
	return func(step int64, trainer int, dst []int64) ([]int64, error) {
		r := rand.New(rand.NewPCG(uint64(step), uint64(trainer)))
		for range 200 {
			x := r.Float64()
			dst = append(dst, int64(x*x*x*float64(j.Place.Rows())))
		}
		return dst, nil
	}
}

// Every message that a rank sends is received by another.
func TestSentIsReceived(t *testing.T) {
	for _, ranks := range []int{3, 6, 63} {
		c, err := plan.Steps(job(t, ranks), 1, 6, 100, 1, draw(job(t, ranks)))
		if err != nil || c.Steps != 6 {
			t.Fatalf("%d steps, %v", c.Steps, err)
		}
		for k := range plan.Classes {
			var sent, received plan.Traffic
			for _, r := range c.Ranks {
				sent.Add(r.Sent[k])
				received.Add(r.Received[k])
			}
			if sent != received || sent.Messages == 0 {
				t.Errorf("%d ranks, %v: %+v sent, %+v received", ranks, k, sent, received)
			}
		}
	}
}

// A sample of the ranks counts about as many messages and bytes as all do.
func TestSampleIsNearAll(t *testing.T) {
	j := job(t, 48)
	j.Split = false
	all, err := plan.Steps(j, 1, 5, 100, 1, draw(j))
	if err != nil {
		t.Fatal(err)
	}
	some, err := plan.Steps(j, 1, 5, 100, 4, draw(j))
	if err != nil {
		t.Fatal(err)
	}
	a, b := plan.MeanOf(all.Means()), plan.MeanOf(some.Means())
	for k := range plan.Classes {
		if near := b.Sent[k].Bytes / a.Sent[k].Bytes; near < 0.95 || near > 1.05 && k != plan.Deltas {
			t.Errorf("%v: %.0f bytes in the sample, %.0f in all", k, b.Sent[k].Bytes, a.Sent[k].Bytes)
		}
	}
	if math.Abs(b.Rows/a.Rows-1) > 0.05 || b.Changed < a.Changed {
		t.Errorf("rows %.1f, changed %.1f in the sample; %.1f and %.1f in all", b.Rows, b.Changed, a.Rows, a.Changed)
	}
}

// A run that is shorter than the counted steps is counted to its end.
func TestShortRuns(t *testing.T) {
	for last := int64(1); last <= 4; last++ {
		c, err := plan.Steps(job(t, 3), 1, 10, last, 1, draw(job(t, 3)))
		if err != nil || c.Steps < 1 || int64(c.Steps) > last {
			t.Errorf("%d of %d steps, %v", c.Steps, last, err)
		}
	}
	broken := errors.New("broken")
	if _, err := plan.Steps(job(t, 3), 1, 10, 20, 1, func(int64, int, []int64) ([]int64, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// work takes a millisecond for each part.
var work = plan.Work{Upload: 1e-3, Forward: 10e-3, Backward: 20e-3, Update: 1e-3, Sum: 1e-3, Serve: 1e-3, Apply: 1e-3, Reduce: 1e-4, Fold: 1e-2}

func TestClock(t *testing.T) {
	j := job(t, 6)
	c, err := plan.Steps(j, 1, 10, 100, 1, draw(j))
	if err != nil {
		t.Fatal(err)
	}
	mean := plan.MeanOf(c.Means())
	host := plan.Host{Processes: 1, Machines: 6, Cores: 8, Threads: 8, Remote: 1, Far: plan.Wire{PerMessage: 1e-6, PerByte: 1e-10}}
	before := 0.0
	for _, rate := range []float64{1e10, 1e9, 1e8, 1e7, 1e6} {
		host.Far.BytesPerS, host.Far.Latency = rate, 20e-6
		x := host.Step(&j, &mean, &work)
		sum := x.Compute + x.Rows + x.Update + x.LateRows + x.Gradients + x.Delayed + x.Dense + x.Status + x.Protection
		if x.Step < before || math.Abs(sum-x.Path) > 1e-12 || x.Step != max(x.Path, x.Cores, x.Link) {
			t.Errorf("link of %.0f bytes/s: %+v after a step of %v", rate, x, before)
		}
		if ideal := x.Compute + x.Rows + x.Update + x.Protection; rate == 1e10 && x.Step > 1.02*ideal {
			t.Errorf("a fast link: step %v, of which compute %v", x.Step, ideal)
		}
		before = x.Step
	}
	if before < 0.3 { // 2 x 5/6 of 1.2 MB of gradients
		t.Errorf("a slow link: step of only %v s", before)
	}
	host.Cores, host.Processes, host.Far.BytesPerS = 2, 4, 0
	if x := host.Step(&j, &mean, &work); x.Step != x.Cores || x.Cores <= x.Path {
		t.Errorf("4 processes of 8 threads on 2 cores: %+v", x)
	}
}

// The loss of a rank costs k times its rows, by whatever number of ranks.
func TestLoss(t *testing.T) {
	j := job(t, 6)
	m := plan.Memory{}
	m[plan.RowWeights], m[plan.Parities] = 100, 50
	host := plan.Host{Remote: 1, Far: plan.Wire{BytesPerS: 1000}}
	r := j.LossOf(&m, &host, 0.5, 1)
	if r.Bytes != 150 || r.Read != 300 || r.Ranks != 2 || r.OverLink != 0.3 || r.Steps != 11 || r.Replay != 5.5 {
		t.Errorf("%+v", r)
	}
	j.Coded = false
	if j.LossOf(&m, &host, 1, 1) != nil {
		t.Error("a job without a code has a rebuild")
	}
}
