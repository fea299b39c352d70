package lrpp

import "github.com/ecrec/ecrec/kernels"

// segments are the cells of the lookups of each row and their weights, as in oracle.Plan.
type segments struct {
	start, pos []int32
	factors    []float32
	copied     *pushCopies // of the lists; nil: there are none
}

// sumGradients sums the gradients of the cells of each row.
func (x *Exchange) sumGradients(b *kernels.Buffer, of segments, cells kernels.Matrix) (kernels.Matrix, error) {
	width, rows := x.shard.Width(), max(len(of.start)-1, 0)
	if rows == 0 {
		return kernels.Matrix{Cols: width, Stride: width}, nil
	}
	if err := grow(x.dev, b, rows*width, kernels.Shared); err != nil {
		return kernels.Matrix{}, err
	}
	sums := kernels.Mat(*b, rows, width)
	s, p, err := x.critical.uploadLookups(of)
	if err != nil {
		return sums, err
	}
	if len(of.factors) == 0 {
		x.critical.Stream.SumRows(sums, cells, s, p)
		return sums, x.critical.Stream.Sync()
	}
	if err := grow(x.dev, &x.factors, len(of.factors), kernels.Working); err != nil {
		return sums, err
	}
	factors := x.factors.SliceFloats(0, len(of.factors))
	x.critical.Stream.Upload(factors, kernels.BytesOf(of.factors))
	x.critical.Stream.SumWeighted(sums, cells, s, p, factors)
	return sums, x.critical.Stream.Sync()
}

// uploadLookups is uploadSegments for cells, which may be on the device already.
func (ch *channel) uploadLookups(of segments) (s, p kernels.Buffer, err error) {
	return ch.uploadCopied(of.copied.cells(), of.start, of.pos)
}

// uploadCopied is uploadSegments for lists that may be on the device already.
func (ch *channel) uploadCopied(copied *segmentCopies, start, pos []int32) (s, p kernels.Buffer, err error) {
	if copied == nil {
		return ch.uploadSegments(start, pos)
	}
	s, hasStart := copied.start.entries(start)
	p, hasPos := copied.pos.entries(pos)
	if hasStart {
		start = nil
	}
	if hasPos {
		pos = nil
	}
	ownStart, ownPos, err := ch.uploadSegments(start, pos)
	if !hasStart {
		s = ownStart
	}
	if !hasPos {
		p = ownPos
	}
	return s, p, err
}
