package train

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/config"
)

// plant is a job that trains and rebuilds: a model of the times of steps, to test a rebuildPace with.
type plant struct {
	step   float64 // seconds of an undisturbed step
	byteNS float64 // of a round, for each byte
	hidden float64 // the part of a step beside which rounds cost nothing
	shared float64 // the share of rounds' time that a step loses even there
	noise  float64 // of a step, relative
	r      *rand.Rand
}

// run trains steps, the pace deciding, and returns the bytes that were rebuilt, the seconds that the steps took, and the seconds that they
// would have taken undisturbed. change is called before each step.
func (x *plant) run(p *rebuildPace, steps int, change func(step int)) (bytes, took, undisturbed float64) {
	type report struct{ took, rounds time.Duration }
	var before report // of the last step but one
	amount := p.now
	for i := range steps {
		if change != nil {
			change(i)
		}
		const fixed = 0.0002 // seconds of a round, which a resting step does too
		rounds := float64(amount.bytes)*x.byteNS/1e9 + fixed
		extra := max(x.shared*(rounds-fixed), rounds-fixed-x.hidden*x.step)
		base := x.step*(1+x.noise*math.Abs(x.r.NormFloat64())) + fixed
		if i%10 == 0 { // a commit
			base *= 1.15
		}
		now := report{time.Duration(1e9 * (base + extra)), time.Duration(1e9 * rounds)}
		bytes, took, undisturbed = bytes+float64(amount.bytes), took+base+extra, undisturbed+base
		amount, before = p.decideAmount(before.took, before.rounds), now
	}
	return bytes, took, undisturbed
}

func newPlant(seed uint64) *plant {
	return &plant{step: 0.025, byteNS: 2, shared: 1, r: rand.New(rand.NewPCG(1, seed))}
}

// The automatic rate keeps the share of the throughput, and uses the rest, for plants of all kinds.
func TestRebuildPaceKeepsTheThroughput(t *testing.T) {
	for name, x := range map[string]struct {
		make      func(x *plant)
		kept      float64 // of the throughput, least
		best      func(x *plant) float64
		bestShare float64 // of the bytes that a perfect controller rebuilds
	}{
		"all is seen":         {func(*plant) {}, 0.945, costed(1), 0.6},
		"noise":               {func(x *plant) { x.noise = 0.2 }, 0.94, costed(1), 0.6},
		"cheap bytes":         {func(x *plant) { x.byteNS = 0.1 }, 0.945, costed(1), 0.6},
		"dear bytes":          {func(x *plant) { x.byteNS = 50 }, 0.945, costed(1), 0.5},
		"long steps":          {func(x *plant) { x.step = 2 }, 0.94, costed(1), 0.4},
		"short steps":         {func(x *plant) { x.step = 0.0005 }, 0.94, costed(1), 0.4},
		"half is hidden":      {func(x *plant) { x.shared, x.hidden = 0.5, 9 }, 0.945, costed(0.5), 0.6},
		"most is hidden":      {func(x *plant) { x.shared, x.hidden = 0, 0.6 }, 0.945, hidden, 0.5},
		"hidden, with noise":  {func(x *plant) { x.shared, x.hidden, x.noise = 0, 0.6, 0.2 }, 0.93, hidden, 0.4},
		"shared, with noise":  {func(x *plant) { x.shared, x.hidden, x.noise = 0.5, 9, 0.2 }, 0.94, costed(0.5), 0.5},
		"all is hidden":       {func(x *plant) { x.shared, x.hidden = 0, 9 }, 0.999, hiddenAll, 0.5},
		"a fifth, much noise": {func(x *plant) { x.shared, x.hidden, x.noise = 0.2, 9, 0.5 }, 0.93, costed(0.2), 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			var kept, share []float64
			for seed := range uint64(10) {
				plant := newPlant(seed)
				x.make(plant)
				p := newRebuildPace(config.RateAuto, 128)
				bytes, took, undisturbed := plant.run(&p, 1000, nil)
				kept, share = append(kept, undisturbed/took), append(share, bytes/1000/x.best(plant))
			}
			t.Logf("kept %.3f, of the best rate %.2f", median(kept), median(share))
			if median(kept) < x.kept || median(share) < x.bestShare {
				t.Errorf("kept %.3f of the throughput, want %.3f; %.2f of the best rate, want %.2f", median(kept), x.kept, median(share), x.bestShare)
			}
		})
	}
}

// costed is the bytes of a step of a perfect controller, if a step loses a share of the time of rounds.
func costed(share float64) func(x *plant) float64 {
	return func(x *plant) float64 { return (1/keptShare - 1) * x.step / (share * x.byteNS / 1e9) }
}

// hidden is the same if rounds cost nothing until they take longer than a part of a step.
func hidden(x *plant) float64 { return 0.75 * (x.hidden + allowedShare) * x.step / (x.byteNS / 1e9) }

// hiddenAll is the most that the controller tries.
func hiddenAll(x *plant) float64 {
	return 0.75 * hiddenShare * allowedShare * x.step / (x.byteNS / 1e9)
}

// A rebuild begins with a guess, which costs little where bytes are dear and is left soon where they are cheap.
func TestRebuildPaceBeginsCarefully(t *testing.T) {
	for _, byteNS := range []float64{0.1, 2, 50} {
		x, p := newPlant(1), newRebuildPace(config.RateAuto, 128)
		x.byteNS = byteNS
		if _, took, undisturbed := x.run(&p, 40, nil); undisturbed/took < 0.9 {
			t.Errorf("%g ns a byte: the first 40 steps keep %.3f of the throughput", byteNS, undisturbed/took)
		}
		x.run(&p, 80, nil)
		if best := costed(1)(x); p.amount < best/4 {
			t.Errorf("%g ns a byte: %.0f bytes in a step after 120 steps, the best are %.0f", byteNS, p.amount, best)
		}
	}
}

// The amount soon reaches its limit, which is 300 times the first guess if rounds are hidden behind compute. Little is lost meanwhile.
func TestRebuildPaceRampsUp(t *testing.T) {
	for name, x := range map[string]struct {
		shared, byteNS, share float64 // share: of a step, that rounds may take
		steps                 int
	}{
		"all is hidden":    {0, 1, hiddenShare * allowedShare, 40},
		"a tenth is shown": {0.1, 1, 10 * allowedShare, 40},
		"all is shown":     {1, 1, allowedShare, 25},
	} {
		for seed := range uint64(10) {
			plant, p := newPlant(seed), newRebuildPace(config.RateAuto, 128)
			plant.step, plant.byteNS, plant.shared, plant.hidden = 0.027, x.byteNS, x.shared, 9
			reached := math.MaxInt
			_, took, undisturbed := plant.run(&p, 60, func(step int) {
				if p.amount >= 0.9*x.share*plant.step/(plant.byteNS/1e9) {
					reached = min(reached, step)
				}
			})
			if reached > x.steps || undisturbed/took < 0.95 {
				t.Errorf("%s, seed %d: 90 %% of the allowed bytes after %d steps, want %d; the first 60 steps keep %.3f of the throughput", name, seed,
					reached, x.steps, undisturbed/took)
			}
		}
	}
}

// The amount follows a plant that changes, a stall does little, and no rebuild starves.
func TestRebuildPaceFollowsChanges(t *testing.T) {
	x, p := newPlant(1), newRebuildPace(config.RateAuto, 128)
	x.noise = 0.1
	x.run(&p, 400, nil)
	settled := p.amount
	x.byteNS *= 10
	x.run(&p, 60, nil)
	if p.amount > settled/5 {
		t.Errorf("%.0f bytes a step when a byte costs 10 times as much, %.0f before", p.amount, settled)
	}
	x.byteNS /= 10
	x.run(&p, 400, nil)
	if p.amount < settled/2 || p.amount > settled*2 {
		t.Errorf("%.0f bytes a step when a byte costs as much as at first, %.0f then", p.amount, settled)
	}
	bytes, _, _ := x.run(&p, 100, func(i int) {
		x.step = 0.025
		if i == 30 {
			x.step = 3
		}
	})
	if bytes < 100*settled/3 {
		t.Errorf("%.0f bytes in 100 steps with a stall, %.0f in a step before", bytes, settled)
	}
	x.step, x.byteNS = 0.001, 1e6
	bytes, _, _ = x.run(&p, 4000, nil)
	if bytes < 2500*p.least {
		t.Errorf("%.0f bytes in 4,000 steps, want at least %.0f in each but the resting ones", bytes, p.least)
	}
}

// A fixed rate is kept where it can be, also over a stall, which makes up for a second at most.
func TestRebuildPaceOfAFixedRate(t *testing.T) {
	const rate = 10 << 20
	x, p := newPlant(1), newRebuildPace(rate, 128)
	x.noise = 0.2
	bytes, took, _ := x.run(&p, 1000, nil)
	if got := bytes / took; got < 0.97*rate || got > 1.03*rate {
		t.Errorf("%.0f bytes per second, want %d", got, rate)
	}
	p = newRebuildPace(rate, 128)
	p.decideAmount(20*time.Millisecond, 0)
	if got := p.decideAmount(10*time.Second, 0); got.bytes != rate {
		t.Errorf("%d bytes after a stall of 10 s, want those of a second", got.bytes)
	}
	p = newRebuildPace(1, 128)
	if got := p.decideAmount(10*time.Millisecond, 0); got.bytes != leastRebuilt*128 {
		t.Errorf("%d bytes at 1 B/s, want %d rows", got.bytes, leastRebuilt)
	}
	p = newRebuildPace(config.RateMax, 128)
	if got := p.decideAmount(0, 0); got.bytes != math.MaxInt64 {
		t.Errorf("%d bytes at the greatest rate, want all", got.bytes)
	}
}

// Resting steps follow no period: commits follow each n-th step.
func TestRestingStepsFollowNoPeriod(t *testing.T) {
	for period := 1; period <= 20; period++ {
		rests := 0
		for i := range 1000 {
			if step := i * period; step%groupSteps == restingStep(step/groupSteps) {
				rests++
			}
		}
		if rests < 180 || rests > 320 {
			t.Errorf("%d of 1,000 steps %d apart rest, want about 250", rests, period)
		}
	}
}

// All CPUs decide the same: ranks of one job may be on several kinds. The sum is that of the decisions on amd64.
func TestRebuildPaceIsTheSameOnAllCPUs(t *testing.T) {
	const want = 0x4415f4931fec332a
	r, sum := rand.New(rand.NewPCG(3, 4)), fnv.New64a()
	for range 20 {
		p := newRebuildPace(config.RateAuto, 64)
		amount, perByte := p.now, r.Int64N(8)+1
		for step := range 400 {
			rounds := time.Duration(amount.bytes*perByte/4 + 200_000)
			took := 20*time.Millisecond + time.Duration(r.Int64N(9e6)) + rounds
			if step%10 == 0 {
				took += 3 * time.Millisecond
			}
			amount = p.decideAmount(took, rounds)
			fmt.Fprintln(sum, amount.bytes, amount.rests, math.Float64bits(p.amount))
		}
	}
	if got := sum.Sum64(); got != want {
		t.Errorf("sum of the decisions %#x, want %#x", got, want)
	}
}
