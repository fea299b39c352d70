package kernels

// Use says how an allocation will be touched, so that the device can place it.
type Use int

const (
	// Working memory is touched densely and often: activations, exchange buffers.
	Working Use = iota
	// Sparse memory is touched at random and perhaps never: embedding rows. It
	// costs nothing until it is written.
	Sparse
	// Rows is Sparse memory whose contents are undefined at first: where the process took
	// the place of one that was lost, they may be what that left.
	Rows
	// Shared is Working memory that ranks of other processes of the host may read in
	// place, where the system allows it.
	Shared
	// Sent is Shared memory that goes by way of the host, also where GPUs have ways of their
	// own.
	Sent
	// Staging is memory of the host that the device addresses too: what is between a
	// device and the network. On the CPU it is Working memory.
	Staging
)

// Device allocates memory and makes streams. It is safe for concurrent use.
type Device interface {
	// Name tells the device and the bodies chosen, "cpu avx2" say.
	Name() string
	// Alloc returns bytes of memory aligned to 64 bytes, off the Go heap, zeroed but for
	// Rows.
	Alloc(bytes int, use Use) (Buffer, error)
	// Free returns what Alloc gave; b must be the whole allocation.
	Free(b Buffer)
	// Stream makes a stream that computes with this many threads (CPU).
	Stream(threads int) Stream
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

	// Linear computes y = act(x wᵀ + b). y is (m, n), x (m, k), w (n, k), b n
	// floats or empty. Bias is added to the finished chain.
	Linear(y, x, w Matrix, b Buffer, act Activation)
	// LinearGradInput computes dx = dy w, gated: where gate is given (not empty),
	// dx(i, j) = +0.0 unless gate(i, j) > 0 (the ReLU of the layer below, whose
	// output gate is). dx and gate are (m, k), dy (m, n), w (n, k).
	LinearGradInput(dx, dy, w, gate Matrix)
	// LinearGradWeight computes dw = dyᵀ x and, where db is not empty, db = column
	// sums of dy. dw is (n, k), dy (m, n), x (m, k), db n floats.
	LinearGradWeight(dw Matrix, db Buffer, dy, x Matrix)
	// GateReLU sets dy(i, j) = +0.0 unless y(i, j) > 0, both (rows, cols).
	GateReLU(dy, y Matrix)

	// DotInteraction computes DLRM's pairwise dots. feats is (b, f*d): f vectors
	// of d floats per sample. out is (b, d + f(f-1)/2): vector 0, then the dots of
	// vectors i and j for i = 1..f-1, j = 0..i-1, each one FMA chain over d.
	DotInteraction(out, feats Matrix, f, d int)
	// DotInteractionGrad computes dfeats (b, f*d) from dout (b, d + f(f-1)/2).
	// With s the symmetric (f, f) matrix of dout's dots and a +0.0 diagonal,
	// dfeats vector i = FMA chain of s(i, j) * feats vector j over all j ascending,
	// plus (one addition) dout's first d floats where i = 0.
	DotInteractionGrad(dfeats, dout, feats Matrix, f, d int)

	// SigmoidBCE computes, for n logits z and labels y (0 or 1),
	// loss[i] = log(1 + exp(-|z|)) + max(z, 0) - z*y  and
	// dlogit[i] = (sigmoid(z) - y) * scale. All are n floats; labels too. It
	// computes in float64, each operation rounded by itself, with internal/f32's
	// functions, and rounds the results once; so does Sigmoid.
	SigmoidBCE(loss, dlogit, logit, label Buffer, scale float32)
	// Sigmoid computes p[i] = 1 / (1 + exp(-z[i])).
	Sigmoid(p, z Buffer)

	// GatherRows copies rows of src (u, d) by index, an int32 for each lookup: with
	// dst (b, t*d), dst(i, c*d .. c*d+d) = src row index[i*t + c]. src may be wider
	// than d (rows that carry state): pass its first d columns.
	GatherRows(dst, src Matrix, index Buffer)
	// ScatterRows is the way back: src row i, (n, d), is copied to dst row index[i],
	// an int32 for each of the n rows. No index occurs twice.
	ScatterRows(dst, src Matrix, index Buffer)
	// XorRows computes dst row i = a row ia[i] XOR b row ib[i], bit by bit, for the
	// rows of dst; all are of the same width, ia and ib int32s.
	XorRows(dst, a Matrix, ia Buffer, b Matrix, ib Buffer)
	// FoldRows adds products of rows to others, byte by byte in GF(2^8) with the polynomial
	// 0x11D: dst row index[i] becomes itself XOR factors[i] * src row from[i]. Of all three
	// there are equally many; no factors at all are ones. No row of dst is named twice.
	FoldRows(dst Matrix, index Buffer, src Matrix, from Buffer, factors []byte)
	// SumRows computes segment sums: dst row s (d floats) = the sum, over p from
	// start[s] to start[s+1]-1 ascending, of lookup pos[p] of src. src is
	// (b, t*d); lookup l is the d floats of row l/t at column (l mod t)*d.
	// start holds dst.Rows+1 int32, pos start[dst.Rows] int32.
	SumRows(dst, src Matrix, start, pos Buffer)

	// InitRows draws rows anew: for each slot (int32) in slots, the state floats
	// are zeroed and the weights drawn by init for the row whose global number is
	// slot*stride + offset. rows is (slots, width + state).
	InitRows(rows Matrix, slots Buffer, init RowInit)
	// XorInit adds its init to each row, bit by bit: row i of rows, whose first weights
	// are those that init draws for slot slots[i], becomes itself XOR those. State stays.
	XorInit(rows Matrix, slots Buffer, init RowInit)
	// UpdateRows sums the gradients of each row and applies its optimizer once:
	// for row u of len(slots), the gradient is the sum of grads rows pos[p], p from
	// start[u] to start[u+1]-1 ascending; it updates rows row slots[u], whose first
	// grads.Cols floats are weights and the rest state. No slot occurs twice.
	UpdateRows(opt Optimizer, rows Matrix, slots Buffer, grads Matrix, start, pos Buffer)
	// UpdateDense applies an optimizer to n weights with n gradients and
	// opt.Kind.DenseState(n) floats of state.
	UpdateDense(opt Optimizer, w, state, g Buffer)
}
