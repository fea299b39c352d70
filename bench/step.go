package bench

import (
	"fmt"
	"text/tabwriter"

	"github.com/ecrec/ecrec/kernels"
)

// The Criteo DLRMs: 26 tables and the bottom MLP's vector interact.
const (
	tablesOfStep = 26
	vectors      = tablesOfStep + 1
	denseWeights = 2_962_289
	lossSamples  = 16384
)

// optimizer has a learning rate so small that weights keep their magnitude.
func optimizer(kind kernels.OptimizerKind) kernels.Optimizer {
	return kernels.Optimizer{Kind: kind, LR: 1e-9, Momentum: 0.9, Eps: 1e-8, Beta1: 0.9, Beta2: 0.999, C1: 0.1, C2: 0.001,
		StepSize: 1e-9, BiasSqrt: 1}
}

// measureStep measures the other operations of a step.
func (b *kernelBench) measureStep() error {
	fmt.Fprintf(b.out, "\nother operations of a step of %d samples: median (least-greatest)\n", b.m)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprint(t, "\tthreads\t\t\t\n")
	for _, threads := range b.threads {
		s := b.dev.Stream(threads)
		for _, f := range []func(*tabwriter.Writer, kernels.Stream, int) error{b.measureInteractions, b.measureSums,
			b.measureDense, b.measureLoss} {
			if err := f(t, s, threads); err != nil {
				s.Close()
				return err
			}
		}
		s.Close()
	}
	return nil
}

func (b *kernelBench) writeLine(t *tabwriter.Writer, name string, threads int, unit string, values []float64) {
	f := b.report.addFigure(fmt.Sprintf("%s, threads %d", name, threads), unit, values...)
	fmt.Fprintf(t, "%s\t%d\t%s\t%s\t\n", name, threads, spread(f), unit)
}

// newRing allocates matrices that fill ringBytes, at least two. take returns them in turn.
func (b *kernelBench) newRing(rows, cols int) (take func() kernels.Matrix, free func(), err error) {
	n := max(2, ringBytes/(4*rows*cols))
	if b.o.Tiny {
		n = 2
	}
	buf, err := b.allocBuffer(n*rows*cols, kernels.Working)
	if err != nil {
		return nil, nil, err
	}
	i := 0
	return func() kernels.Matrix {
		i = (i + 1) % n
		return kernels.Mat(buf.SliceFloats(i*rows*cols, rows*cols), rows, cols)
	}, func() { b.dev.Free(buf) }, nil
}

func (b *kernelBench) measureInteractions(t *tabwriter.Writer, s kernels.Stream, threads int) error {
	for _, d := range []int{16, 48, 128} {
		feats, freeFeats, err := b.newRing(b.m, vectors*d)
		if err != nil {
			return err
		}
		dots, freeDots, err := b.newRing(b.m, d+vectors*(vectors-1)/2)
		if err != nil {
			freeFeats()
			return err
		}
		grads, freeGrads, err := b.newRing(b.m, vectors*d)
		if err != nil {
			freeFeats()
			freeDots()
			return err
		}
		took := b.o.inTurn(0, timeRows,
			func() { s.DotInteraction(dots(), feats(), vectors, d) },
			func() { s.DotInteractionGrad(grads(), dots(), feats(), vectors, d) })
		for i, name := range []string{"DotInteraction", "DotInteractionGrad"} {
			b.writeLine(t, fmt.Sprintf("%s of %d vectors of %d", name, vectors, d), threads, "ns/sample", scale(took[i], 1e9/float64(b.m)))
		}
		freeFeats()
		freeDots()
		freeGrads()
	}
	return nil
}

// measureSums measures the sums of a batch's row gradients, with four lookups per row.
func (b *kernelBench) measureSums(t *tabwriter.Writer, s kernels.Stream, threads int) error {
	const times = 4
	n := b.m * tablesOfStep
	grads, free, err := b.newRing(b.m, tablesOfStep*modelRow)
	if err != nil {
		return err
	}
	defer free()
	out, err := b.allocBuffer(n/times*modelRow, kernels.Working)
	if err != nil {
		return err
	}
	defer b.dev.Free(out)
	rows := n / times
	start, pos := starts(rows, times), make([]int32, rows*times)
	for i := range pos {
		pos[i] = int32(i%times*rows + i/times) // far apart, as samples are
	}
	took := b.o.inTurn(0, timeRows, func() {
		s.SumRows(kernels.Mat(out, rows, modelRow), grads(), kernels.HostBuffer(start), kernels.HostBuffer(pos))
	})
	b.writeLine(t, fmt.Sprintf("SumRows of %d, by %d", modelRow, times), threads, "ns/lookup", scale(took[0], 1e9/float64(len(pos))))
	return nil
}

// measureDense counts the bytes of weights and state twice, read and written.
func (b *kernelBench) measureDense(t *tabwriter.Writer, s kernels.Stream, threads int) error {
	n := denseWeights
	if b.o.Tiny {
		n = 100
	}
	for _, name := range kernels.RuleNames(true) {
		kind, _ := kernels.FindRule(name)
		state := kind.DenseState(n)
		buf, err := b.allocBuffer(2*n+state, kernels.Working)
		if err != nil {
			return err
		}
		w, g, st := buf.SliceFloats(0, n), buf.SliceFloats(n, n), buf.SliceFloats(2*n, state)
		took := b.o.inTurn(0, timeRows, func() { s.UpdateDense(optimizer(kind), w, st, g) })
		b.writeLine(t, "UpdateDense "+name, threads, "GB/s", per(4e-9*float64(3*n+2*state), took[0]))
		b.dev.Free(buf)
	}
	return nil
}

func (b *kernelBench) measureLoss(t *tabwriter.Writer, s kernels.Stream, threads int) error {
	n := lossSamples
	if b.o.Tiny {
		n = 100
	}
	buf, err := b.allocBuffer(4*n, kernels.Working)
	if err != nil {
		return err
	}
	defer b.dev.Free(buf)
	part := func(i int) kernels.Buffer { return buf.SliceFloats(i*n, n) }
	labels := kernels.HostView[float32](part(3))
	logits := kernels.HostView[float32](part(2))
	for i := range labels {
		labels[i] = float32(i % 2)
		logits[i] -= 0.5 // of both signs
	}
	took := b.o.inTurn(0, timeRows, func() { s.SigmoidBCE(part(0), part(1), part(2), part(3), 1) })
	b.writeLine(t, "SigmoidBCE", threads, "ns/sample", scale(took[0], 1e9/float64(n)))
	return nil
}
