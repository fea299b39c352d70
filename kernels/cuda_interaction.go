package kernels

import (
	"fmt"
	"unsafe"
)

const (
	warpThreads = 32
	dotTile     = 4  // dot_interaction's tiles are of dotTile by dotTile dots
	mostVectors = 28 // of a sample, for dot_interaction_grad_28
	// vectorThreads is the number of threads that share a sample in dot_interaction_grad.
	vectorThreads = 128
)

// oddQuads rounds floats up to an odd number of groups of four: one more of them starts in other
// banks.
func oddQuads(floats int) int { return 4 * ((floats+3)/4 | 1) }

func (s *cudaStream) DotInteraction(out, feats Matrix, f, d int) {
	const op = "DotInteraction"
	lead, dots := checkDots(op, out, f, d), f*(f-1)/2
	p := s.interactionOf(op, feats, f, d, lead)
	p.out = s.matrixOf(op, "out", out, feats.Rows, lead+dots)
	step := (f + dotTile - 1) / dotTile
	tiles := step * (step + 1) / 2
	p.each = int32(oddQuads(f*int(p.row) + dots))
	p.group = int32(samplesOf(warpThreads/tiles, 4*int(p.each)))
	threads := min((tiles+warpThreads-1)/warpThreads*warpThreads, 256)
	s.runInteraction(op, kernelInteraction, &p, threads, 4*int(p.group*p.each))
}

func (s *cudaStream) DotInteractionGrad(dfeats, dout, feats Matrix, f, d int) {
	const op = "DotInteractionGrad"
	lead, dots := checkDots(op, dout, f, d), f*(f-1)/2
	p := s.interactionOf(op, feats, f, d, lead)
	p.out = s.matrixOf(op, "dout", dout, feats.Rows, lead+dots)
	p.dfeats = s.matrixOf(op, "dfeats", dfeats, feats.Rows, f*d)
	p.each = int32(oddQuads(f*mostVectors + lead + lead + dots))
	places := (dots + 3) / 4 * 4
	p.group = int32(samplesOf(warpThreads/max(d/4, 1), 4*int(p.each)))
	if shared := 4 * (places + int(p.group*p.each)); f <= mostVectors && by4(d, p.feats, p.dfeats) && shared <= s.d.Shared {
		s.runInteraction(op, kernelInteractionGrad28, &p, warpThreads, shared)
		return
	}
	p.row, p.group, p.wide, p.by = int32(d|1), 1, 0, divisorOf(d)
	s.runInteraction(op, kernelInteractionGrad, &p, vectorThreads, 4*f*(int(p.row)+f))
}

func (s *cudaStream) interactionOf(op string, feats Matrix, f, d, lead int) cudaInteraction {
	p := cudaInteraction{samples: int64(feats.Rows), f: int32(f), d: int32(d), row: int32(oddQuads(d)), lead: int32(lead), by: divisorOf(d)}
	p.feats = s.matrixOf(op, "feats", feats, feats.Rows, f*d)
	if by4(d, p.feats) {
		p.wide, p.by = 1, divisorOf(d/4)
	}
	return p
}

// samplesOf returns the number of samples for a block at a time: at most the given number, and a
// few kilobytes, so that a multiprocessor has room for many blocks.
func samplesOf(most, bytes int) int { return max(1, min(most, 24<<10/bytes)) }

// interactionBlocks is the number of blocks for a multiprocessor: more than run at the same time, so
// that all have work to the end, and few enough that each takes several samples.
const interactionBlocks = 48

func (s *cudaStream) runInteraction(op string, k cudaKernel, p *cudaInteraction, threads, shared int) {
	if p.samples == 0 {
		return
	}
	if shared > s.d.Shared {
		s.setError(fmt.Errorf("%s of %d vectors of %d floats takes %d bytes of shared memory, and %s has %d: use a smaller model.embedding_dim",
			op, p.f, p.d, shared, s.d.Context.Name, s.d.Shared))
		return
	}
	groups := (int(p.samples) + int(p.group) - 1) / int(p.group)
	s.launchKernel(k, min(groups, interactionBlocks*s.d.Processors), threads, 1, shared, unsafe.Pointer(p))
}
