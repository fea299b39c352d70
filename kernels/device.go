package kernels

// Use is how an allocation will be accessed. The device places it accordingly.
type Use int

const (
	// Working memory is accessed densely and often: activations, exchange buffers.
	Working Use = iota
	// Sparse memory is accessed at random, parts of it never: embedding rows. It
	// takes no physical memory until it is written.
	Sparse
	// Rows is Sparse memory whose initial contents are undefined. In a process that
	// replaces a lost one, they may be the contents that the lost process left.
	Rows
	// Shared memory is Working memory that ranks of other processes on the host may
	// read in place, if the system allows it.
	Shared
	// Sent memory is Shared memory that is sent through the host even if the GPUs have
	// direct links.
	Sent
	// Staging memory is host memory that the device can address too, for buffers
	// between a device and the network. On the CPU it is Working memory.
	Staging
)

// Device allocates memory and makes streams. It is safe for concurrent use.
type Device interface {
	// Name returns the device and its instruction set, for example "cpu avx2".
	Name() string
	// Alloc returns bytes of memory off the Go heap, aligned to 64 bytes. It is zeroed,
	// except Rows.
	Alloc(bytes int, use Use) (Buffer, error)
	// Free frees an allocation. b must be the buffer that Alloc returned, not a slice.
	Free(b Buffer)
	// Stream makes a stream. On the CPU it computes with this number of threads.
	Stream(threads int) Stream
}

// Grow makes b at least bytes long. If b is too short, it is freed and replaced by
// a new allocation with a quarter of headroom; its contents are lost.
func Grow(dev Device, b *Buffer, bytes int, use Use) error {
	if b.bytes >= bytes {
		return nil
	}
	if b.bytes > 0 {
		dev.Free(*b)
		*b = Buffer{}
	}
	fresh, err := dev.Alloc(bytes+bytes/4, use)
	if err != nil {
		return err
	}
	*b = fresh
	return nil
}

// Activation is applied to the output of a Linear layer.
type Activation int

const (
	Identity Activation = iota
	ReLU                // +0.0 if x < 0, else x: a NaN stays one
)

// Stream runs operations in order. See the package doc for the arithmetic.
type Stream interface {
	// Close waits for all operations and frees the stream's threads and scratch.
	Close()
	// Sync waits for all operations and returns the first error of any.
	Sync() error

	// Upload copies host bytes to dst, Download copies src to host bytes; the
	// host slice may be reused when the call returns.
	Upload(dst Buffer, src []byte)
	Download(dst []byte, src Buffer)
	// Copy copies src to dst of the same length, Zero clears dst.
	Copy(dst, src Buffer)
	Zero(dst Buffer)
	// CopyColumns copies src to dst, (rows, cols) both, of any strides.
	CopyColumns(dst, src Matrix)
	// Sum computes dst[i] = ((+0.0 + a[0][i]) + a[1][i]) + ..., float32, for one
	// addend or more. dst may be one of them.
	Sum(dst Buffer, addends []Buffer)
	// MulAdd computes dst(i, j) = a(i, j) * b(i, j) + c(i, j), rounded to float32 after each
	// operation. All are (rows, cols), but b may be (rows, 1) and c (1, cols): b counts for
	// all columns then, c for all rows. An empty c adds nothing. dst may be a or c.
	MulAdd(dst, a, b, c Matrix)

	// Linear computes y = act(x wᵀ + b). y is (m, n), x (m, k), w (n, k), b n
	// floats or empty. Bias is added to the finished chain.
	Linear(y, x, w Matrix, b Buffer, act Activation)
	// LinearGradInput computes dx = dy w. If gate is not empty, dx(i, j) = +0.0 unless
	// gate(i, j) > 0: gate is the output of the layer below, which ends in a ReLU. dx
	// and gate are (m, k), dy (m, n), w (n, k).
	LinearGradInput(dx, dy, w, gate Matrix)
	// LinearGradWeight computes dw = dyᵀ x and, where db is not empty, db = column
	// sums of dy. dw is (n, k), dy (m, n), x (m, k), db n floats.
	LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix)
	// GateReLU sets dy(i, j) = +0.0 unless y(i, j) > 0, both (rows, cols).
	GateReLU(dy, y Matrix)

	// DotInteraction computes DLRM's pairwise dots. feats is (b, f*d): f vectors
	// of d floats per sample. out is (b, d + f(f-1)/2): vector 0, then the dots of
	// vectors i and j for i = 1..f-1, j = 0..i-1, each one FMA chain over d. An out
	// of (b, f(f-1)/2) gets the dots alone.
	DotInteraction(out, feats Matrix, f, d int)
	// DotInteractionGrad computes dfeats (b, f*d) from dout, of the shape of out.
	// With s the symmetric (f, f) matrix of dout's dots and a +0.0 diagonal,
	// dfeats vector i = FMA chain of s(i, j) * feats vector j over all j ascending,
	// plus (one addition) dout's first d floats where i = 0, unless dout has the dots alone.
	DotInteractionGrad(dfeats, dout, feats Matrix, f, d int)

	// ColumnSums computes sums[j] = ((+0.0 + x(0, j)) + x(1, j)) + ..., for all columns of x.
	// ColumnSquares does so for (x(i, j) - mean[j])^2, each operation rounded by itself.
	ColumnSums(sums Buffer, x Matrix)
	ColumnSquares(sums Buffer, x Matrix, mean Buffer)
	// BatchNorm computes y = act(h(i, j) * gamma[j] + beta[j]) with h(i, j) = (x(i, j) - mean[j]) *
	// inv[j], each operation rounded by itself. y may be x.
	BatchNorm(y, x Matrix, n Norm, act Activation)
	// BatchNormSums computes dbeta, the column sums of dy, and dgamma, those of dy(i, j) * h(i, j),
	// in row order from +0.0. BatchNormGrad computes dx(i, j) = ((dy(i, j) - dbeta[j]/samples) -
	// h(i, j) * (dgamma[j]/samples)) * (gamma[j] * inv[j]), where dgamma and dbeta are the sums over
	// the samples of all ranks. dx may be dy.
	BatchNormSums(dgamma, dbeta Buffer, dy, x Matrix, n Norm)
	BatchNormGrad(dx, dy, x Matrix, n Norm, dgamma, dbeta Buffer, samples int)
	// Average computes dst[j] = (1-rate)*dst[j] + rate*(sums[j]/by), or sums[j]/by for a rate of 1.
	// InverseRoot computes dst[j] = 1/sqrt(sums[j]/by + eps). dst may be sums.
	Average(dst, sums Buffer, by, rate float32)
	InverseRoot(dst, sums Buffer, by, eps float32)
	// Dropout sets y(i, j) = +0.0 for units that d drops, and multiplies the others by d.Scale().
	// Unit j of row i is kept if the symmetric draw of its counter is at least 2*Rate - 1.
	Dropout(y Matrix, d Dropout)
	// Scale computes dst[i] = src[i] * by. dst may be src.
	Scale(dst, src Buffer, by float32)

	// FM computes the second-order term of a factorization machine over the f vectors x of d
	// floats of each sample: out (b, 1) = 0.5 * the sum over c ascending of s(c)*s(c) - q(c), where
	// s(c) and q(c) are the sums of x(v, c) and its square over v ascending. All sums start at
	// +0.0. feats is (b, f*d).
	FM(out, feats Matrix, f, d int)
	// FMGrad adds the gradient to dfeats (b, f*d): dfeats(v, c) += dout * (s(c) - x(v, c)).
	FMGrad(dfeats, dout, feats Matrix, f, d int)
	// ScaleVectors computes dst(i, j*d+c) = v(j, c) * x(i, j): a vector of d floats for each of the
	// n numbers of a sample. dst is (b, n*d), x (b, n), v (n, d) without gaps between rows.
	// ScaleVectorsGrad computes dv(j, c) = the sum over i ascending, from +0.0, of
	// dout(i, j*d+c) * x(i, j).
	ScaleVectors(dst, x, v Matrix)
	ScaleVectorsGrad(dv, x, dout Matrix)
	// ExtendVectors copies the f vectors of d floats of each sample, each followed by the sample's
	// tail of e floats. dst is (b, f*(d+e)), vectors (b, f*d), tail (b, e).
	ExtendVectors(dst, vectors, tail Matrix, d int)

	// SigmoidBCE computes, for n logits z and labels y (0 or 1),
	// loss[i] = log(1 + exp(-|z|)) + max(z, 0) - z*y  and
	// dlogit[i] = (sigmoid(z) - y) * scale. All four buffers hold n floats. It computes
	// in float64 with the functions of internal/f32, rounds each operation by itself,
	// and rounds each result to float32 once. Sigmoid does the same.
	SigmoidBCE(loss, dlogit, logit, label Buffer, scale float32)
	// WeightedSigmoidBCE is SigmoidBCE in which the loss and the gradient of sample i are
	// multiplied by weight[i], and by positive where its label is 1, as the weight and the
	// pos_weight of torch.nn.functional.binary_cross_entropy_with_logits. weight holds n
	// floats, or is empty: all are 1. The factor is a product in float64, and the result is
	// still rounded once. With factors of 1 the bits are those of SigmoidBCE.
	WeightedSigmoidBCE(loss, dlogit, logit, label, weight Buffer, positive, scale float32)
	// Sigmoid computes p[i] = 1 / (1 + exp(-z[i])).
	Sigmoid(p, z Buffer)

	// GatherRows copies rows of src (u, d) by index, an int32 for each lookup: with
	// dst (b, t*d), dst(i, c*d .. c*d+d) = src row index[i*t + c]. If the rows of src
	// also hold state, pass only their first d columns.
	GatherRows(dst, src Matrix, index Buffer)
	// ScatterRows copies src row i to dst row index[i]. src is (n, d), index n int32.
	// No index occurs twice.
	ScatterRows(dst, src Matrix, index Buffer)
	// XorRows computes dst row i = a row ia[i] XOR b row ib[i], bit by bit, for all
	// rows of dst. dst, a and b have equal widths; ia and ib are int32.
	XorRows(dst, a Matrix, ia Buffer, b Matrix, ib Buffer)
	// FoldRows adds multiples of rows to other rows, byte by byte in GF(2^8) with the
	// polynomial 0x11D: dst row index[i] = dst row index[i] XOR factors[i] * src row
	// from[i]. index, from and factors have equal lengths; empty factors mean all 1. No
	// index occurs twice.
	FoldRows(dst Matrix, index Buffer, src Matrix, from Buffer, factors []byte)
	// SumRows computes segment sums: dst row s (d floats) = the sum, over p from
	// start[s] to start[s+1]-1 ascending, of lookup pos[p] of src. src is
	// (b, t*d); lookup l is the d floats of row l/t at column (l mod t)*d.
	// start holds dst.Rows+1 int32, pos start[dst.Rows] int32.
	SumRows(dst, src Matrix, start, pos Buffer)

	// PoolRows sums rows of src (u, d) by bag. dst is (b, f*d); cell c is its columns
	// (c mod f)*d to (c mod f)*d+d of row c/f, and cell c = ((r0 + r1) + r2) + ..., the rows
	// index[l] of lookups l from offsets[c] to offsets[c+1]-1 ascending. An empty bag is
	// +0.0, and a bag of one id is its row. If weights, a float32 for each lookup, is not
	// empty, each row is multiplied by its weight and rounded first. offsets holds b*f+1
	// int32, index offsets[b*f].
	PoolRows(dst, src Matrix, index, offsets, weights Buffer)
	// SumWeighted is SumRows with each lookup multiplied by factors[p], a float32 for each
	// position, and rounded before it is added.
	SumWeighted(dst, src Matrix, start, pos, factors Buffer)
	// DivideCells divides the floats of each cell of d columns, as in PoolRows, by the number
	// of lookups of its bag. Empty bags, and features f whose mean[f] (int32) is 0, are
	// unchanged.
	DivideCells(m Matrix, d int, offsets, mean Buffer)

	// InitRows sets rows to their initial values. For each slot (int32) in slots, init
	// draws the weights of the global row slot*Owners + Owner, and the state floats are
	// zeroed. rows is (slots, width + state).
	InitRows(rows Matrix, slots Buffer, init RowInit)
	// XorInit adds the initial weights to each row, bit by bit: the weights of row i of
	// rows become themselves XOR the weights that init draws for slot slots[i]. The
	// state is unchanged.
	XorInit(rows Matrix, slots Buffer, init RowInit)
	// UpdateRows sums the gradients of each row and applies the rule of each part once:
	// for row u of len(slots), the gradient is the sum of grads rows pos[p], p from
	// start[u] to start[u+1]-1 ascending; it updates rows row slots[u], whose first
	// grads.Cols floats are weights and the rest state, as RowRule lays them out. No slot
	// occurs twice.
	UpdateRows(rule RowRule, rows Matrix, slots Buffer, grads Matrix, start, pos Buffer)
	// UpdateDense applies an optimizer to n weights with n gradients and
	// opt.Kind.DenseState(n) floats of state.
	UpdateDense(opt Optimizer, w, state, g Buffer)
}
