// Bags: cell c of a matrix is the d columns of a sample and a feature. Its lookups are numbers
// offsets[c] to offsets[c+1]-1. A group of threads takes a cell: each thread has a chain for each
// of its columns.

struct Bags {
	Mat dst, src;
	const int *index, *offsets, *mean; // mean: of each feature
	const float *weights;              // of each lookup, or 0: all are 1
	u64 *fault;
	i64 cells, lookups, limit; // limit: of src's rows
	int features, d;
	Divisor by; // features
};

__device__ __forceinline__ float *cell(const Bags &p, i64 c) {
	i64 row = p.features == 1 ? c : quotient((u32)c, p.by);
	return p.dst.p + row * p.dst.stride + (c - row * p.features) * p.d;
}

// bag sets the range of a cell's lookups. If it is invalid, bag stores a fault and returns false.
__device__ __forceinline__ bool bag(const Bags &p, i64 c, int op, int &lo, int &hi) {
	lo = p.offsets[c];
	hi = p.offsets[c + 1];
	if (lo >= 0 && lo <= hi && hi <= p.lookups && (c > 0 || lo == 0))
		return true;
	outside(p.fault, op, START, hi, 0);
	return false;
}

// pool sums column j, in units of V, of the rows of lookups [lo, hi). The sum has the bits of the
// first addend, since the sum of -0.0 and x is x.
template <typename V> __device__ __forceinline__ V pool(const Bags &p, int lo, int hi, int j) {
	V sum = zeroOf(V());
	for (int first = lo; lo < hi; lo += AHEAD) {
		V next[AHEAD];
		int x[AHEAD];
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			x[k] = lo + k < hi ? p.index[lo + k] : 0;
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (lo + k < hi)
				next[k] = outside(p.fault, 10, INDEX, x[k], p.limit) ? zeroOf(V()) : ((const V *)(p.src.p + x[k] * p.src.stride))[j];
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (lo + k < hi) {
				V a = p.weights ? scaled(p.weights[lo + k], next[k]) : next[k];
				sum = lo + k == first ? a : plus(sum, a);
			}
	}
	return sum;
}

template <typename V> __device__ __forceinline__ void poolRows(const Bags &p) {
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	for (i64 c = firstRow(); c < p.cells; c += rowStep()) {
		int lo, hi;
		if (!bag(p, c, 10, lo, hi))
			continue;
		V *to = (V *)cell(p, c);
		for (int j = threadIdx.x; j < n; j += blockDim.x)
			to[j] = pool<V>(p, lo, hi, j);
	}
}

// pool_rows: each cell of dst = the sum of the rows of its lookups.
KERNEL pool_rows(Bags p) { poolRows<float>(p); }
KERNEL pool_rows_4(Bags p) { poolRows<float4>(p); }

// divide_cells divides each cell of dst by the number of its lookups, if its feature has a mean.
KERNEL divide_cells(Bags p) {
	for (i64 c = firstRow(); c < p.cells; c += rowStep()) {
		int lo, hi;
		i64 row = p.features == 1 ? c : quotient((u32)c, p.by);
		if (!bag(p, c, 12, lo, hi) || hi - lo < 2 || p.mean[c - row * p.features] == 0)
			continue;
		float *x = cell(p, c), n = (float)(hi - lo);
		for (int j = threadIdx.x; j < p.d; j += blockDim.x)
			x[j] = x[j] / n;
	}
}
