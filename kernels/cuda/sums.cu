// Segment sums: the gradients of a row are added in the order of its lookups, from +0.0, and
// its optimizer runs once on the sum. Lookup l is the d floats of src row l/t at column
// (l mod t)*d.
//
// Most segments have a lookup or two, a few have tens of thousands (a table of three rows in a
// batch of 64K). A group of threads sums a short segment: each thread has a chain for each of
// its columns, with loads AHEAD of the additions. Long segments are listed in any order. A
// block takes 32 columns of one: its threads load many lookups at once into shared memory, and
// one thread for each column adds them up. Both ways add in the same order.

struct Segments {
	Mat dst, src;
	const int *start, *pos;
	u64 *fault;
	int *longOnes; // counters of this call and of the next, then the segments
	i64 n, limit;  // segments, lookups of src
	i64 positions; // in pos
	int t, d, op, turn; // turn: which counters of longOnes are this call's
	Divisor by; // t
	// If rows are updated by the sums, which are then not stored in dst:
	RowPart parts[ROW_PARTS];
	int update, pad2; // number of parts; 0: the sums are stored
	Mat rows;
	const int *slots;
	i64 slotLimit;
	float *sums; // (segments that are long, d)
	const float *factors; // of each position, or 0: all are 1
};

// As an H200 is fastest (bench/results/2026-11-27-gpu-sums.txt).
enum {
	AHEAD = 4, LONG = 64, VERY_LONG = 4096, LONG_COLUMNS = 8, LONG_LOOKUPS = 128, LONG_TILES = 7,
	LONG_LANES = 32, LONG_LOADERS = 4 * LONG_LANES, LONG_BATCH = 16, SUMS_AT_ONCE = 2, UPDATES_AT_ONCE = 1
};

__device__ __forceinline__ float zeroOf(float) { return 0.0f; }
__device__ __forceinline__ float4 zeroOf(float4) { return make_float4(0.0f, 0.0f, 0.0f, 0.0f); }
__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ float4 plus(float4 a, float4 b) { return add4(a, b); }

__device__ __forceinline__ float scaled(float f, float a) { return f * a; }
__device__ __forceinline__ float4 scaled(float f, float4 a) { return make_float4(f * a.x, f * a.y, f * a.z, f * a.w); }

__device__ __forceinline__ const float *lookup(const Segments &p, int l) {
	if (p.t == 1)
		return p.src.p + l * p.src.stride;
	i64 row = quotient((u32)l, p.by);
	return p.src.p + row * p.src.stride + (i64)(l - row * p.t) * p.d;
}

// The counters of longOnes. Segments of more than VERY_LONG lookups are listed from the front of
// the list, so that they start first, and the others from the back.
enum { VERY_LONG_ONES = 0, LONG_ONES = 1, TAKEN = 2, COUNTERS = 4 };

__device__ __forceinline__ int *counter(const Segments &p, int which) { return p.longOnes + COUNTERS * p.turn + which; }
__device__ __forceinline__ int *listed(const Segments &p) { return p.longOnes + 2 * COUNTERS; }

__device__ __forceinline__ void listLong(const Segments &p, i64 s, int n) {
	if (n > VERY_LONG)
		listed(p)[atomicAdd(counter(p, VERY_LONG_ONES), 1)] = (int)s;
	else
		listed(p)[p.positions / LONG - 1 - atomicAdd(counter(p, LONG_ONES), 1)] = (int)s;
}

__device__ __forceinline__ int longOnes(const Segments &p) { return *counter(p, VERY_LONG_ONES) + *counter(p, LONG_ONES); }

__device__ __forceinline__ int longOne(const Segments &p, i64 i) {
	int first = *counter(p, VERY_LONG_ONES);
	return listed(p)[i < first ? i : p.positions / LONG - 1 - (i - first)];
}

// clearNext clears the counters of the next call, before which this call is done.
__device__ __forceinline__ void clearNext(const Segments &p) {
	if (blockIdx.x == 0 && threadIdx.y == 0 && threadIdx.x == 0)
		for (int i = 0; i < COUNTERS; i++)
			p.longOnes[COUNTERS * (1 - p.turn) + i] = 0;
}

// bounds sets the range of a segment's positions. If it is invalid, bounds stores a fault and
// returns false.
__device__ __forceinline__ bool bounds(const Segments &p, i64 s, int &lo, int &hi) {
	lo = p.start[s];
	hi = p.start[s + 1];
	if (lo >= 0 && lo <= hi && hi <= p.positions && (s > 0 || lo == 0))
		return true;
	outside(p.fault, p.op, START, hi, 0);
	return false;
}

// sumColumn adds up column j, in units of V, of positions [lo, hi), DEPTH at a time.
template <bool FACTORS, int DEPTH, typename V> __device__ __forceinline__ V sumColumn(const Segments &p, int lo, int hi, int j) {
	V sum = zeroOf(V());
	for (; lo < hi; lo += DEPTH) {
		V next[DEPTH];
		int l[DEPTH];
#pragma unroll
		for (int k = 0; k < DEPTH; k++)
			l[k] = lo + k < hi ? p.pos[lo + k] : 0;
#pragma unroll
		for (int k = 0; k < DEPTH; k++)
			if (lo + k < hi)
				next[k] = outside(p.fault, p.op, POS, l[k], p.limit) ? zeroOf(V()) : ((const V *)lookup(p, l[k]))[j];
#pragma unroll
		for (int k = 0; k < DEPTH; k++)
			if (lo + k < hi)
				sum = plus(sum, FACTORS ? scaled(p.factors[lo + k], next[k]) : next[k]);
	}
	return sum;
}

// lowest returns the number of the lowest bit that is set.
__device__ __forceinline__ int lowest(int bits) {
	int k = 0;
	while ((bits >> k & 1) == 0)
		k++;
	return k;
}

// The mean of g*g is a sum in the 8 lanes of package kernels' doc. In squares, each thread of a
// group adds up one lane or more; meanSquare adds up the lanes.
enum { LANES = 8 };

__device__ __forceinline__ void squares(float *lanes, const float *g, int d) {
	for (int l = threadIdx.x; l < LANES; l += blockDim.x) {
		float sum = 0.0f;
		for (int i = l; i < d; i += LANES)
			sum = sum + g[i] * g[i];
		lanes[l] = sum;
	}
}

__device__ __forceinline__ float meanSquare(const float *l, int d) {
	return (((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))) / (float)d;
}

// apply updates a thread's columns of a part of a row by the part's gradient g, which all
// threads of the group share; lanes are its squares, used by a row-wise rule. It returns the new
// state of a row-wise rule. storeState stores that when all threads have read the old one.
__device__ __forceinline__ float apply(const RowPart &p, float *row, const float *g, const float *lanes) {
	float *w = row + p.first, *s = row + p.state, *v = s + p.width;
	if (p.opt.kind != ROWWISE_ADAGRAD) {
		const bool one = p.opt.kind != SGD, two = p.opt.kind >= ADAM; // floats of state
		for (int j = threadIdx.x; j < p.width; j += AT_ONCE * blockDim.x) {
			float a[AT_ONCE], b[AT_ONCE], c[AT_ONCE];
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++) {
				int i = j + k * (int)blockDim.x;
				if (i < p.width) {
					a[k] = w[i];
					b[k] = one ? s[i] : 0.0f;
					c[k] = two ? v[i] : 0.0f;
				}
			}
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++) {
				int i = j + k * (int)blockDim.x;
				if (i >= p.width)
					break;
				step(p.opt, &a[k], &b[k], &c[k], g[i]);
				w[i] = a[k];
				if (one)
					s[i] = b[k];
				if (two)
					v[i] = c[k];
			}
		}
		return 0.0f;
	}
	float q = *s + meanSquare(lanes, p.width), below = __fsqrt_rn(q) + p.opt.eps;
	for (int j = threadIdx.x; j < p.width; j += blockDim.x)
		w[j] = w[j] - (p.opt.lr * g[j]) / below;
	return q;
}

// change applies scale and weight decay to the gradient of a part, which all threads of the group
// share.
__device__ __forceinline__ void change(const RowPart &p, const float *row, float *g) {
	for (int j = threadIdx.x; j < p.width; j += blockDim.x)
		g[j] = changed(p.opt, g[j], row[p.first + j]);
}

__device__ __forceinline__ void storeState(const RowPart &p, float *row, float q) {
	if (p.opt.kind == ROWWISE_ADAGRAD && threadIdx.x == 0)
		row[p.state] = q;
}

// unknownRule reports whether the rule of a part has no body here.
__device__ __forceinline__ bool unknownRule(const Segments &p) {
	for (int k = 0; k < p.update; k++)
		if (unknown(p.parts[k].opt, p.fault, p.op))
			return true;
	return false;
}

template <typename V> __device__ __forceinline__ void segments(const Segments &p) {
	clearNext(p);
	if (unknownRule(p))
		return;
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	// A gradient and its squares for each group.
	float *mine = (float *)sharedMemory + threadIdx.y * ((p.d + 3) / 4 * 4 + LANES), *squared = mine + (p.d + 3) / 4 * 4;
	// All groups of a warp iterate together, because of the barriers.
	for (i64 first = (i64)blockIdx.x * blockDim.y; first < p.n; first += rowStep()) {
		i64 s = first + threadIdx.y;
		int lo = 0, hi = 0, slot = 0;
		bool here = s < p.n && bounds(p, s, lo, hi);
		if (here) {
			slot = p.slots[s];
			here = !outside(p.fault, p.op, SLOTS, slot, p.slotLimit);
		}
		if (here && hi - lo > LONG) {
			if (threadIdx.x == 0)
				listLong(p, s, hi - lo);
			here = false;
		}
		if (here)
			for (int j = threadIdx.x; j < n; j += blockDim.x)
				((V *)mine)[j] = sumColumn<false, AHEAD, V>(p, lo, hi, j);
		__syncwarp();
		float *row = p.rows.p + slot * p.rows.stride;
		for (int k = 0; k < p.update; k++) {
			const RowPart &part = p.parts[k];
			if (changesGradient(part.opt)) {
				if (here)
					change(part, row, mine + part.first);
				__syncwarp();
			}
			if (part.opt.kind == ROWWISE_ADAGRAD) {
				if (here)
					squares(squared, mine + part.first, part.width);
				__syncwarp();
			}
			float q = here ? apply(part, row, mine + part.first, squared) : 0.0f;
			__syncwarp(); // mine and squared are free again
			if (here)
				storeState(part, row, q);
		}
	}
}
