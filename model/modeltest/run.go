package modeltest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// Suite is two configs of one kind. Run sets MaxSamples.
type Suite struct {
	// Small has a few hundred weights: each is changed to find its gradient.
	Small model.Config
	// Large has enough dense parameters for a gradient of several buckets.
	Large model.Config
	// OneBucket is set for a kind that hands out its gradient in one bucket, however large
	// it is. Without it, Large must give several.
	OneBucket bool
	// OwnBuckets is set for a kind whose buckets are not those of model.Shape.Buckets, which `ecrec plan` counts.
	OwnBuckets bool
	// Golden is the sum of the bits of a step of Small. Run logs it where it is empty.
	// A change means that models of the kind train to other digests than before.
	Golden string
}

// samples is the size of the slices.
const samples = 16

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	s.Small.MaxSamples, s.Large.MaxSamples = samples, samples
	for _, c := range []struct {
		name  string
		check func(t *testing.T, s Suite)
	}{
		{"Gradients", testGradients},
		{"Buckets", testBuckets},
		{"Tensors", testTensors},
		{"Memory", testMemory},
		{"FLOPs", testFLOPs},
		{"Slices", testSlices},
		{"Graph", testGraph},
		{"Bags", testBags},
		{"Golden", RunGolden},
		{"Processors", testProcessors},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, s) })
	}
}

// testGradients compares gradients with finite differences, for dense parameters
// and rows. It draws again where too many ReLUs are about to switch.
func testGradients(t *testing.T, s Suite) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	kinks, all := 0, 0
	for draw := range uint64(5) {
		if kinks, all = compareGradients(t, s, rand.New(rand.NewPCG(seed, draw))); kinks*4 <= all {
			return
		}
	}
	t.Fatalf("%d of %d gradients could not be checked", kinks, all)
}

// compareGradients returns the number of gradients, and how many of them could not be checked.
func compareGradients(t *testing.T, s Suite, r *rand.Rand) (kinks, all int) {
	g := newRig(t, s.Small, r)
	dense, rows := g.step(nil)
	weights := kernels.HostView[float32](g.model.Params().Weights)
	compare := func(what string, got float32, w *float32) {
		near, far, smooth := g.slopes(w)
		if !smooth {
			kinks++
		} else if !agree(near, float64(got)) && !agree(far, float64(got)) {
			t.Errorf("%s: gradient %v, slopes %v, %v", what, got, near, far)
		}
	}
	for _, x := range g.model.Params().Tensors {
		for i := range x.Len() {
			compare(fmt.Sprintf("%s[%d]", x.Name, i), dense[x.Offset+i], &weights[x.Offset+i])
		}
	}
	for i := range rows {
		compare(fmt.Sprintf("row[%d]", i), rows[i], &g.rows[i])
	}
	return kinks, len(dense) + len(rows)
}

// testBuckets checks that buckets cover the flat gradient once, in order, and that
// each is final when it is handed out.
func testBuckets(t *testing.T, s Suite) {
	g := newRig(t, s.Large, rand.New(rand.NewPCG(1, 1)))
	var handedOut [][]float32
	final, _ := g.step(func(b kernels.Buffer) {
		handedOut = append(handedOut, slices.Clone(kernels.HostView[float32](b)))
	})
	switch n := len(handedOut); {
	case s.OneBucket && n != 1:
		t.Fatalf("%d buckets: unset Suite.OneBucket", n)
	case !s.OneBucket && n < 2:
		t.Fatalf("%d buckets: give Suite.Large wider layers, or set Suite.OneBucket for a kind that has one bucket at any size", n)
	}
	at := 0
	for i, b := range handedOut {
		if at+len(b) > len(final) || !slices.Equal(b, final[at:at+len(b)]) {
			t.Fatalf("bucket %d is not what the gradient holds there in the end", i)
		}
		at += len(b)
	}
	if at != len(final) {
		t.Fatalf("buckets hold %d of %d gradients", at, len(final))
	}
	if s.OneBucket || s.OwnBuckets {
		return
	}
	for i, floats := range model.ShapeOf(s.Large).Buckets() {
		if i >= len(handedOut) || floats != len(handedOut[i]) {
			t.Errorf("Shape.Buckets has %d floats in bucket %d, and the model hands out %d buckets", floats, i, len(handedOut))
		}
	}
}

// testTensors compares the shape with the parameters of a model.
func testTensors(t *testing.T, s Suite) {
	for _, c := range []model.Config{s.Small, s.Large} {
		g, shape := newRig(t, c, rand.New(rand.NewPCG(3, 3))), model.ShapeOf(c)
		g.step(nil)
		p := g.model.Params()
		if !slices.Equal(p.Tensors, shape.Tensors) || !slices.Equal(p.Statistics, shape.Statistics) {
			t.Errorf("the model has the tensors %v, its shape %v", p.Saved(), append(shape.Tensors, shape.Statistics...))
		}
		if n := shape.DenseParams(); n != p.Len() || n != p.Grad.Floats() || shape.SavedFloats() != p.Weights.Floats() {
			t.Errorf("%d dense parameters by the shape, %d by the layout; %d weights and %d gradients are allocated",
				n, p.Len(), p.Weights.Floats(), p.Grad.Floats())
		}
		names := map[string]bool{}
		for _, x := range shape.Tensors {
			names[x.Name] = true
		}
		for _, x := range shape.Statistics {
			names[x.Name] = true
		}
		for _, part := range shape.Row {
			names[part.Tensor(0)] = true
		}
		if len(names) != len(shape.Tensors)+len(shape.Statistics)+len(shape.Row) {
			t.Errorf("two tensors have one name, among %v", names)
		}
		if e := shape.Row[0].Width; e != c.EmbeddingDim {
			t.Errorf("the first part of a row has %d weights, model.embedding_dim is %d", e, c.EmbeddingDim)
		}
		if cols, want := g.lookups.Cols, c.Tables*shape.RowWidth(); cols != want {
			t.Errorf("a sample's gradients of lookups are %d floats, want %d", cols, want)
		}
	}
}

// testMemory compares the memory that a shape reports with the memory of a model, and
// checks that Close frees it.
func testMemory(t *testing.T, s Suite) {
	for _, c := range []model.Config{s.Small, s.Large} {
		shape := model.ShapeOf(c)
		fixed := 4 * (shape.SavedFloats() + shape.DenseParams() + shape.Constants) // weights and gradients
		for _, n := range []int{0, 1, samples} {
			c.MaxSamples = n
			dev := &counted{Device: device(t)}
			st := dev.Stream(1)
			m, err := model.New(dev, st, c)
			if err != nil {
				t.Fatal(err)
			}
			if want := fixed + 4*n*shape.Activations; dev.bytes != want {
				t.Errorf("a model for slices of %d samples allocates %d bytes, by its shape %d", n, dev.bytes, want)
			}
			m.Close()
			st.Close()
			if dev.bytes != 0 {
				t.Errorf("%d bytes are left after Close", dev.bytes)
			}
		}
	}
}

// testFLOPs compares the products that a shape reports with those of a step.
func testFLOPs(t *testing.T, s Suite) {
	for _, c := range []model.Config{s.Small, s.Large} {
		g := newRig(t, c, rand.New(rand.NewPCG(4, 4)))
		want := model.ShapeOf(c).FLOPs * samples
		g.stream.flops = 0
		g.step(nil)
		if g.stream.flops != want {
			t.Errorf("a step multiplies %v FLOPs, by the shape %v", g.stream.flops, want)
		}
		g.stream.flops = 0
		g.model.GEMMs(samples)
		if g.stream.flops != want {
			t.Errorf("GEMMs multiplies %v FLOPs, by the shape %v", g.stream.flops, want)
		}
	}
}

// testSlices checks that a sample's logit depends neither on the other samples of
// its slice nor on MaxSamples.
func testSlices(t *testing.T, s Suite) {
	for _, c := range []model.Config{s.Small, s.Large} {
		g := newRig(t, c, rand.New(rand.NewPCG(2, 2)))
		g.in.Train = false // a batch norm makes samples that are trained depend on each other
		all := slices.Clone(kernels.HostView[float32](g.model.Forward(g.in).Buf))
		c.MaxSamples = 3
		few, err := model.New(g.dev, g.stream, c)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+3 <= samples; i += 3 {
			for _, n := range []int{1, 3} {
				part := model.Batch{Dense: g.in.Dense.RowRange(i, n), Rows: g.in.Rows, Index: g.in.Index.SliceFloats(c.Tables*i, c.Tables*n)}
				if got := kernels.HostView[float32](few.Forward(part).Buf); !slices.Equal(got, all[i:i+n]) {
					t.Errorf("samples %d to %d alone: %v, among others %v", i, i+n-1, got, all[i:i+n])
				}
			}
		}
		few.Close()
	}
}

// RunGolden compares the bits of a step with those of before: the part of Run that large models afford.
func RunGolden(t *testing.T, s Suite) {
	s.Small.MaxSamples = samples
	switch got := sumStep(newRig(t, s.Small, rand.New(rand.NewPCG(5, 5)))); s.Golden {
	case got:
	case "":
		t.Logf("Golden: %q", got)
	default:
		t.Errorf("the bits of a step sum to %s, they were %s: models of this kind train to other digests than before", got, s.Golden)
	}
}

// sumStep is the sum of the bits of a step: weights, logits and gradients.
func sumStep(g *rig) string {
	logits := slices.Clone(kernels.HostView[float32](g.model.Forward(g.in).Buf))
	dense, rows := g.step(nil)
	sum := fnv.New64a()
	for _, part := range [][]float32{kernels.HostView[float32](g.model.Params().Weights), logits, dense, rows} {
		sum.Write(kernels.BytesOf(part))
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}

// testProcessors checks that neither CPU features nor threads change a bit of a step.
func testProcessors(t *testing.T, s Suite) {
	want := ""
	for _, features := range []string{"plain", "avx2", "avx512"} {
		t.Setenv("ECREC_CPU", features)
		for threads := 1; threads <= 2; threads++ {
			got := sumStep(newRigOn(t, s.Large, rand.New(rand.NewPCG(5, 5)), threads))
			if want == "" {
				want = got
			} else if got != want {
				t.Errorf("%d threads of %s: the bits of a step sum to %s, want %s", threads, features, got, want)
			}
		}
	}
}
