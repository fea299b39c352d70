package model

import "github.com/ecrec/ecrec/kernels"

// GatherRows copies the rows of a slice side by side: dst is (b, t*w), and its columns c*w to
// (c+1)*w hold the row that lookup c of each sample reads, or the sum or mean of the rows of bag
// c. Kinds read rows by this method only.
func (in Batch) GatherRows(s kernels.Stream, dst kernels.Matrix) {
	if in.Offsets.Bytes() == 0 {
		s.GatherRows(dst, in.Rows, in.Index)
		return
	}
	s.PoolRows(dst, in.Rows, in.Index, in.Offsets, in.Weights)
	in.divideMeans(s, dst)
}

// DivideGrad turns the gradients that Backward returned, (b, t*w), into those of the sums of bags:
// the gradients of means are divided by the number of ids. With weights it is still the number of
// ids, not the sum of the weights.
func (in Batch) DivideGrad(s kernels.Stream, cells kernels.Matrix) {
	if in.Offsets.Bytes() > 0 {
		in.divideMeans(s, cells)
	}
}

func (in Batch) divideMeans(s kernels.Stream, cells kernels.Matrix) {
	if in.Mean.Bytes() > 0 && cells.Rows > 0 {
		s.DivideCells(cells, in.Rows.Cols, in.Offsets, in.Mean)
	}
}

// Part returns the batch with rows that are columns first to first+width-1 of in's, such as a Part
// of Shape.Row.
func (in Batch) Part(first, width int) Batch {
	in.Rows = in.Rows.Columns(first, width)
	return in
}
