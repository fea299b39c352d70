package train

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// productsBelow is a stream that clears the outputs of products before they are computed, so that skipped products are seen.
type productsBelow struct {
	kernels.Stream
	skipped *int
}

func (s productsBelow) Linear(y, x, w kernels.Matrix, b kernels.Buffer, act kernels.Activation) {
	const unset = 12345
	out := kernels.HostView[float32](y.Buf)
	out[0] = unset
	s.Stream.Linear(y, x, w, b, act)
	if out[0] == unset {
		*s.skipped++
	}
}

// TestABrokenWorldEndsThePass lets the world of a job end at each point of a step at which a rank has work left. The job ends with that
// error, and neither reports nor counts the step. From the forward pass's beginning on no product is computed.
func TestABrokenWorldEndsThePass(t *testing.T) {
	lost := &transport.PeerLost{Rank: 1, Cause: errors.New("as a test")}
	for _, point := range []probe.Point{probe.Planned, probe.Fetch, probe.Forward, probe.Evaluate} {
		cfg, err := config.Load(adagrad, []string{"job.out=" + t.TempDir(), "train.iterations=4", "train.eval_every=2"})
		if err != nil {
			t.Fatal(err)
		}
		world := alone(env.Real(), cfg.Job.Ranks)
		world.Broken = new(Broken)
		skipped, q := 0, &quiet{}
		o := Options{Observer: q, Stop: func() bool { return false }, World: world,
			WrapStream: func(_ int, s kernels.Stream) kernels.Stream { return productsBelow{s, &skipped} },
			Inject: func(_ int, step int64, at probe.Point) error {
				if step == 2 && at == point {
					world.Broken.Set(lost)
				}
				return nil
			}}
		var result *Result
		within(t, 20*time.Second, func() { result, err = Run(env.Real(), cfg, o) })
		if !errors.Is(err, lost) {
			t.Errorf("%v: ended with %v", point, err)
		}
		want := int64(1)
		if point == probe.Evaluate {
			want = 2
		}
		if result.Steps != want || len(result.Eval) > 0 {
			t.Errorf("%v: %d steps, evaluations %v", point, result.Steps, result.Eval)
		}
		if isForward := slices.Contains([]probe.Point{probe.Planned, probe.Fetch, probe.Evaluate}, point); isForward != (skipped > 0) {
			t.Errorf("%v: %d products of forward passes were skipped", point, skipped)
		}
	}
}
