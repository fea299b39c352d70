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
	int *longOnes; // their number, then the segments
	i64 n, limit;  // segments, lookups of src
	i64 positions; // in pos
	int t, d, op, pad;
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

enum { AHEAD = 4, LONG = 64, LONG_COLUMNS = 32, LONG_THREADS = 8, LONG_LOOKUPS = 64, LONG_EACH = LONG_LOOKUPS / LONG_THREADS };

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
				sum = plus(sum, p.factors ? scaled(p.factors[lo + k], next[k]) : next[k]);
	}
	return sum;
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
	if (unknownRule(p))
		return;
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	// If rows are updated: a gradient and its squares for each group.
	float *mine = (float *)sharedMemory + threadIdx.y * ((p.d + 3) / 4 * 4 + LANES), *squared = mine + (p.d + 3) / 4 * 4;
	// All groups of a warp iterate together, because of the barriers.
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

// sum_segments: dst row s = the sum of its lookups, or the update of row slots[s] by it; long
// segments are listed for sum_long.
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
			for (int k = 0; k < LONG_EACH; k++) { // all positions at once, then all their lookups
				int at = from + k * LONG_THREADS + threadIdx.y;
				l[k] = mine && at < hi ? p.pos[at] : 0;
			}
#pragma unroll
			for (int k = 0; k < LONG_EACH; k++) {
				int at = from + k * LONG_THREADS + threadIdx.y;
				next[k] = !mine || at >= hi || outside(p.fault, p.op, POS, l[k], p.limit) ? 0.0f : lookup(p, l[k])[column];
				if (p.factors && mine && at < hi)
					next[k] = p.factors[at] * next[k];
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
	if (unknownRule(p))
		return;
	for (i64 i = blockIdx.x; i < *p.longOnes; i += gridDim.x) {
		float *row = p.rows.p + p.slots[p.longOnes[1 + i]] * p.rows.stride;
		float *g = p.sums + i * p.d;
		for (int k = 0; k < p.update; k++) {
			const RowPart &part = p.parts[k];
			if (changesGradient(part.opt)) {
				change(part, row, g + part.first);
				__syncthreads();
			}
			if (part.opt.kind == ROWWISE_ADAGRAD) {
				squares(lanes, g + part.first, part.width);
				__syncthreads();
			}
			float q = apply(part, row, g + part.first, lanes);
			__syncthreads();
			storeState(part, row, q);
		}
	}
}
