// Segment sums: the gradients of a row are added in the order of its lookups, from +0.0, and
// its optimizer runs once on the sum. Lookup l is the d floats of src row l/t at column
// (l mod t)*d.
//
// Most segments have a lookup or two, a few have tens of thousands (a table of three rows in a
// batch of 64K). A group of threads sums a short one, each thread a chain for its columns, with
// loads AHEAD of the additions. Long ones are listed, in any order, and taken by whole blocks,
// 32 columns each, whose threads load many lookups at once into shared memory, where one
// thread for each column adds them up in order. The order of additions is the same in both.

struct Segments {
	Mat dst, src;
	const int *start, *pos;
	u64 *fault;
	int *longOnes; // their number, then the segments
	i64 n, limit;  // segments, lookups of src
	i64 positions; // in pos
	int t, d, op, pad;
	Divisor by; // t
	// Where rows are updated by the sums, which then go to no dst:
	Optimizer opt;
	int update;
	Mat rows;
	const int *slots;
	i64 slotLimit;
	float *sums; // (segments that are long, d)
};

enum { AHEAD = 4, LONG = 64, LONG_COLUMNS = 32, LONG_THREADS = 8, LONG_LOOKUPS = 64, LONG_EACH = LONG_LOOKUPS / LONG_THREADS };

__device__ __forceinline__ float zeroOf(float) { return 0.0f; }
__device__ __forceinline__ float4 zeroOf(float4) { return make_float4(0.0f, 0.0f, 0.0f, 0.0f); }
__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ float4 plus(float4 a, float4 b) { return add4(a, b); }

__device__ __forceinline__ const float *lookup(const Segments &p, int l) {
	if (p.t == 1)
		return p.src.p + l * p.src.stride;
	i64 row = quotient((u32)l, p.by);
	return p.src.p + row * p.src.stride + (i64)(l - row * p.t) * p.d;
}

// bounds gives a segment's first and last position; false where they are none, which is told.
__device__ __forceinline__ bool bounds(const Segments &p, i64 s, int &lo, int &hi) {
	lo = p.start[s];
	hi = p.start[s + 1];
	if (lo >= 0 && lo <= hi && hi <= p.positions && (s > 0 || lo == 0))
		return true;
	outside(p.fault, p.op, START, hi, 0);
	return false;
}

// sumColumn adds up column j, in units of V, of positions [lo, hi).
template <typename V> __device__ __forceinline__ V sumColumn(const Segments &p, int lo, int hi, int j) {
	V sum = zeroOf(V());
	for (; lo < hi; lo += AHEAD) {
		V next[AHEAD];
		int l[AHEAD];
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			l[k] = lo + k < hi ? p.pos[lo + k] : 0;
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (lo + k < hi)
				next[k] = outside(p.fault, p.op, POS, l[k], p.limit) ? zeroOf(V()) : ((const V *)lookup(p, l[k]))[j];
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (lo + k < hi)
				sum = plus(sum, next[k]);
	}
	return sum;
}

// The mean of g*g is a sum in the 8 lanes of package kernels' doc. squares has the threads of a
// group add up a lane or more each, meanSquare puts the lanes together.
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

// apply updates a thread's columns of the row of a slot by the gradient g, d floats that all
// threads of the group see, as they do its squares where the rule is row-wise. It returns what the state of a row-wise rule becomes, which is for
// storeState when all have read it.
__device__ __forceinline__ float apply(const Segments &p, int slot, const float *g, const float *lanes) {
	float *w = p.rows.p + slot * p.rows.stride, *s = w + p.d, *v = s + p.d;
	if (p.opt.kind != ROWWISE_ADAGRAD) {
		const bool one = p.opt.kind != SGD, two = p.opt.kind == ADAM; // floats of state
		for (int j = threadIdx.x; j < p.d; j += AT_ONCE * blockDim.x) {
			float a[AT_ONCE], b[AT_ONCE], c[AT_ONCE];
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++) {
				int i = j + k * (int)blockDim.x;
				if (i < p.d) {
					a[k] = w[i];
					b[k] = one ? s[i] : 0.0f;
					c[k] = two ? v[i] : 0.0f;
				}
			}
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++) {
				int i = j + k * (int)blockDim.x;
				if (i >= p.d)
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
	float q = *s + meanSquare(lanes, p.d), below = __fsqrt_rn(q) + p.opt.eps;
	for (int j = threadIdx.x; j < p.d; j += blockDim.x)
		w[j] = w[j] - (p.opt.lr * g[j]) / below;
	return q;
}

__device__ __forceinline__ void storeState(const Segments &p, int slot, float q) {
	if (p.opt.kind == ROWWISE_ADAGRAD && threadIdx.x == 0)
		p.rows.p[slot * p.rows.stride + p.d] = q;
}

template <typename V> __device__ __forceinline__ void segments(const Segments &p) {
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	// Where rows are updated, a gradient and its squares for each group.
	float *mine = (float *)sharedMemory + threadIdx.y * ((p.d + 3) / 4 * 4 + LANES), *squared = mine + (p.d + 3) / 4 * 4;
	// All groups of a warp go round together, for the barriers.
	for (i64 first = (i64)blockIdx.x * blockDim.y; first < p.n; first += rowStep()) {
		i64 s = first + threadIdx.y;
		int lo = 0, hi = 0, slot = 0;
		bool here = s < p.n && bounds(p, s, lo, hi);
		if (here && p.update) {
			slot = p.slots[s];
			here = !outside(p.fault, p.op, SLOTS, slot, p.slotLimit);
		}
		if (here && hi - lo > LONG) {
			if (threadIdx.x == 0)
				p.longOnes[1 + atomicAdd(p.longOnes, 1)] = (int)s;
			here = false;
		}
		if (here)
			for (int j = threadIdx.x; j < n; j += blockDim.x) {
				V sum = sumColumn<V>(p, lo, hi, j);
				if (p.update)
					((V *)mine)[j] = sum;
				else
					((V *)(p.dst.p + s * p.dst.stride))[j] = sum;
			}
		if (!p.update)
			continue;
		__syncwarp();
		if (p.opt.kind == ROWWISE_ADAGRAD) {
			if (here)
				squares(squared, mine, p.d);
			__syncwarp();
		}
		float q = here ? apply(p, slot, mine, squared) : 0.0f;
		__syncwarp(); // mine is free again
		if (here)
			storeState(p, slot, q);
	}
}

// sum_segments: dst row s = the sum of its lookups, or the update of row slots[s] by it; long
// segments are listed for what follows.
KERNEL sum_segments(Segments p) { segments<float>(p); }
KERNEL sum_segments_4(Segments p) { segments<float4>(p); }

// sum_long sums the listed segments: blockDim is (LONG_COLUMNS, LONG_THREADS), and blocks take
// 32 columns of a segment each. Sums go to dst, or to row i of sums for update_long.
KERNEL sum_long(Segments p) {
	__shared__ float tile[LONG_LOOKUPS][LONG_COLUMNS];
	const int parts = (p.d + LONG_COLUMNS - 1) / LONG_COLUMNS;
	const i64 work = (i64)*p.longOnes * parts;
	for (i64 w = blockIdx.x; w < work; w += gridDim.x) {
		i64 i = w / parts;
		int s = p.longOnes[1 + i], column = (int)(w - i * parts) * LONG_COLUMNS + threadIdx.x;
		bool mine = column < p.d;
		int lo = p.start[s], hi = p.start[s + 1];
		float sum = 0.0f, next[LONG_EACH];
		int l[LONG_EACH];
		auto load = [&](int from) {
#pragma unroll
			for (int k = 0; k < LONG_EACH; k++) { // all of these at once, then all of those they name
				int at = from + k * LONG_THREADS + threadIdx.y;
				l[k] = mine && at < hi ? p.pos[at] : 0;
			}
#pragma unroll
			for (int k = 0; k < LONG_EACH; k++) {
				int at = from + k * LONG_THREADS + threadIdx.y;
				next[k] = !mine || at >= hi || outside(p.fault, p.op, POS, l[k], p.limit) ? 0.0f : lookup(p, l[k])[column];
			}
		};
		load(lo);
		for (; lo < hi; lo += LONG_LOOKUPS) {
#pragma unroll
			for (int k = 0; k < LONG_EACH; k++)
				tile[k * LONG_THREADS + threadIdx.y][threadIdx.x] = next[k];
			__syncthreads();
			load(lo + LONG_LOOKUPS); // while these are added up
			int n = hi - lo < LONG_LOOKUPS ? hi - lo : LONG_LOOKUPS;
			if (threadIdx.y == 0)
				for (int k = 0; k < n; k++)
					sum = sum + tile[k][threadIdx.x];
			__syncthreads();
		}
		if (threadIdx.y == 0 && mine)
			*(p.update ? p.sums + i * p.d + column : p.dst.p + s * p.dst.stride + column) = sum;
	}
}

// update_long updates the rows whose sums sum_long left; a block takes a row.
KERNEL update_long(Segments p) {
	__shared__ float lanes[LANES];
	for (i64 i = blockIdx.x; i < *p.longOnes; i += gridDim.x) {
		int slot = p.slots[p.longOnes[1 + i]];
		if (p.opt.kind == ROWWISE_ADAGRAD) {
			squares(lanes, p.sums + i * p.d, p.d);
			__syncthreads();
		}
		float q = apply(p, slot, p.sums + i * p.d, lanes);
		__syncthreads();
		storeState(p, slot, q);
	}
}
