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

#ifndef SUM_COLUMNS
#define SUM_COLUMNS 16
#define SUM_LOOKUPS 128
#define SUM_TILES 5
#endif
#ifndef SUM_BLOCKS
#define SUM_SOME 4
#define SUM_MORE 4
#define SUM_UPDATES 2
#define SUM_BLOCKS 3
#define SUM_BLOCKS_0 2
#define SUM_BLOCKS_1 2
#define SUM_BLOCKS_2 2
#define SUM_BLOCKS_R 2
#endif
enum {
	AHEAD = 4, LONG = 64, VERY_LONG = 4096, LONG_COLUMNS = SUM_COLUMNS, LONG_LOOKUPS = SUM_LOOKUPS, LONG_TILES = SUM_TILES,
	LONG_LANES = 32, LONG_LOADERS = 4 * LONG_LANES, LONG_BATCH = 16, SUMS_AT_ONCE = SUM_SOME, UPDATES_AT_ONCE = SUM_UPDATES
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

// A group takes N segments at a time: it loads all their starts, then the positions of their
// FIRST_ONES lookups, then those lookups and the rows to update. Most segments have no more
// lookups; the others follow one by one.
enum { FIRST_ONES = 2, MORE_AHEAD = SUM_MORE };

template <int N> struct Some {
	int n[N]; // lookups; -1: the group does not sum the segment with the others
	int l[N][FIRST_ONES];
	float f[N][FIRST_ONES]; // factors, if there are any
};

// take reads the bounds and first positions of the segments from s on, and lists those that are
// long. It returns a bit for each segment that has more lookups than FIRST_ONES.
template <bool FACTORS, int N> __device__ __forceinline__ int take(const Segments &p, i64 s, Some<N> &m) {
	int at[N + 1], more = 0;
#pragma unroll
	for (int k = 0; k <= N; k++)
		at[k] = s + k <= p.n ? p.start[s + k] : 0;
#pragma unroll
	for (int k = 0; k < N; k++) {
		m.n[k] = -1;
		if (s + k >= p.n)
			continue;
		if (at[k] < 0 || at[k] > at[k + 1] || at[k + 1] > p.positions || (s + k == 0 && at[k] != 0)) {
			outside(p.fault, p.op, START, at[k + 1], 0);
			continue;
		}
		int n = at[k + 1] - at[k];
		if (n > LONG) {
			if (threadIdx.x == 0)
				listLong(p, s + k, n);
		} else if (n > FIRST_ONES)
			more |= 1 << k;
		else
			m.n[k] = n;
	}
#pragma unroll
	for (int k = 0; k < N; k++)
#pragma unroll
		for (int i = 0; i < FIRST_ONES; i++) {
			m.l[k][i] = i < m.n[k] ? p.pos[at[k] + i] : 0;
			if (FACTORS)
				m.f[k][i] = i < m.n[k] ? p.factors[at[k] + i] : 1.0f;
		}
	return more;
}

// loadFirst loads column j, in units of V, of the first lookups.
template <typename V, int N>
__device__ __forceinline__ void loadFirst(const Segments &p, const Some<N> &m, int j, V (&next)[N][FIRST_ONES]) {
#pragma unroll
	for (int k = 0; k < N; k++)
#pragma unroll
		for (int i = 0; i < FIRST_ONES; i++)
			if (i < m.n[k])
				next[k][i] = outside(p.fault, p.op, POS, m.l[k][i], p.limit) ? zeroOf(V()) : ((const V *)lookup(p, m.l[k][i]))[j];
}

// sumFirst adds up column j of segment k, whose lookups are loaded.
template <bool FACTORS, typename V, int N>
__device__ __forceinline__ V sumFirst(const Some<N> &m, int k, const V (&next)[N][FIRST_ONES]) {
	V sum = zeroOf(V());
#pragma unroll
	for (int i = 0; i < FIRST_ONES; i++)
		if (i < m.n[k])
			sum = plus(sum, FACTORS ? scaled(m.f[k][i], next[k][i]) : next[k][i]);
	return sum;
}

template <typename V, bool FACTORS, int N> __device__ __forceinline__ void sums(const Segments &p) {
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	clearNext(p);
	for (i64 s = N * firstRow(); s < p.n; s += N * rowStep()) {
		Some<N> m;
		int more = take<FACTORS>(p, s, m);
		for (int j = threadIdx.x; j < n; j += blockDim.x) {
			V next[N][FIRST_ONES];
			loadFirst(p, m, j, next);
#pragma unroll
			for (int k = 0; k < N; k++)
				if (m.n[k] >= 0)
					((V *)(p.dst.p + (s + k) * p.dst.stride))[j] = sumFirst<FACTORS>(m, k, next);
		}
		for (; more != 0; more &= more - 1) {
			i64 at = s + lowest(more);
			for (int j = threadIdx.x; j < n; j += blockDim.x)
				((V *)(p.dst.p + at * p.dst.stride))[j] = sumColumn<FACTORS, MORE_AHEAD, V>(p, p.start[at], p.start[at + 1], j);
		}
	}
}

// update4 updates weights j to j+3 of a row that is one part, by their gradients; a, b and c are
// the weights and their state.
template <int KIND> __device__ __forceinline__ void update4(const Optimizer &rule, float *row, int j, int n, float4 g, float4 a, float4 b, float4 c) {
	Optimizer o = rule;
	o.kind = KIND;
	if (changesGradient(o))
		g = make_float4(changed(o, g.x, a.x), changed(o, g.y, a.y), changed(o, g.z, a.z), changed(o, g.w, a.w));
	step(o, &a.x, &b.x, &c.x, g.x);
	step(o, &a.y, &b.y, &c.y, g.y);
	step(o, &a.z, &b.z, &c.z, g.z);
	step(o, &a.w, &b.w, &c.w, g.w);
	float4 *to = (float4 *)row + j;
	to[0] = a;
	if (KIND != SGD)
		to[n] = b;
	if (KIND >= ADAM)
		to[2 * n] = c;
}

// rowOf returns the row of segment s, or 0 if its slot is outside the rows.
__device__ __forceinline__ float *rowOf(const Segments &p, int slot) {
	return outside(p.fault, p.op, SLOTS, slot, p.slotLimit) ? 0 : p.rows.p + slot * p.rows.stride;
}

template <int N> __device__ __forceinline__ void takeSlots(const Segments &p, i64 s, int (&slot)[N]) {
#pragma unroll
	for (int k = 0; k < N; k++)
		slot[k] = s + k < p.n ? p.slots[s + k] : 0;
}

// updateRows sums segments and updates rows that are one part, four weights at a time. KIND is
// the rule: its state is loaded with the lookups.
template <int KIND, int N> __device__ __forceinline__ void updateRows(const Segments &p) {
	const bool one = KIND != SGD, two = KIND >= ADAM;
	const int n = p.d / 4;
	const Optimizer &o = p.parts[0].opt;
	clearNext(p);
	for (i64 s = N * firstRow(); s < p.n; s += N * rowStep()) {
		Some<N> m;
		int slot[N];
		float *row[N];
		takeSlots(p, s, slot);
		int more = take<false>(p, s, m);
#pragma unroll
		for (int k = 0; k < N; k++) {
			row[k] = rowOf(p, slot[k]);
			if (row[k] == 0) {
				m.n[k] = -1;
				more &= ~(1 << k);
			}
		}
		for (int j = threadIdx.x; j < n; j += blockDim.x) {
			float4 next[N][FIRST_ONES], a[N], b[N], c[N];
			loadFirst(p, m, j, next);
#pragma unroll
			for (int k = 0; k < N; k++)
				if (m.n[k] >= 0) {
					const float4 *from = (const float4 *)row[k] + j;
					a[k] = from[0];
					b[k] = one ? from[n] : zeroOf(float4());
					c[k] = two ? from[2 * n] : zeroOf(float4());
				}
#pragma unroll
			for (int k = 0; k < N; k++)
				if (m.n[k] >= 0)
					update4<KIND>(o, row[k], j, n, sumFirst<false>(m, k, next), a[k], b[k], c[k]);
		}
		for (; more != 0; more &= more - 1) {
			i64 at = s + lowest(more);
			float *to = rowOf(p, p.slots[at]);
			for (int j = threadIdx.x; j < n; j += blockDim.x) {
				const float4 *from = (const float4 *)to + j;
				float4 a = from[0], b = one ? from[n] : zeroOf(float4()), c = two ? from[2 * n] : zeroOf(float4());
				float4 g = sumColumn<false, MORE_AHEAD, float4>(p, p.start[at], p.start[at + 1], j);
				update4<KIND>(o, to, j, n, g, a, b, c);
			}
		}
	}
}

// updateRowwise is updateRows for row-wise Adagrad, whose rows have any alignment. The group's
// N gradients are in shared memory, then the lanes of their squares.
template <int N> __device__ __forceinline__ void updateRowwise(const Segments &p) {
	enum { W = 4 }; // weights of a row that a thread has at once
	const int n = p.d / 4, each = N * (p.d + LANES), x = blockDim.x;
	const Optimizer &o = p.parts[0].opt;
	float *g = (float *)sharedMemory + threadIdx.y * each, *squared = g + N * p.d;
	clearNext(p);
	// All groups of a warp iterate together, because of the barriers.
	for (i64 first = N * (i64)blockIdx.x * blockDim.y; first < p.n; first += N * rowStep()) {
		i64 s = first + N * threadIdx.y;
		Some<N> m;
		int slot[N];
		float *row[N], w[N][W], q[N];
		takeSlots(p, s, slot);
		int more = take<false>(p, s, m), mine = more;
#pragma unroll
		for (int k = 0; k < N; k++) {
			row[k] = rowOf(p, slot[k]);
			if (m.n[k] >= 0)
				mine |= 1 << k;
			if (row[k] == 0)
				m.n[k] = -1, mine &= ~(1 << k);
		}
		auto load = [&](int from) {
#pragma unroll
			for (int k = 0; k < N; k++)
#pragma unroll
				for (int i = 0; i < W; i++)
					w[k][i] = mine >> k & 1 && from + i * x < p.d ? row[k][from + i * x] : 0.0f;
		};
		load(threadIdx.x); // while the lookups are loaded
#pragma unroll
		for (int k = 0; k < N; k++)
			q[k] = mine >> k & 1 ? row[k][p.d] : 0.0f;
		for (int j = threadIdx.x; j < n; j += x) {
			float4 next[N][FIRST_ONES];
			loadFirst(p, m, j, next);
#pragma unroll
			for (int k = 0; k < N; k++)
				if (m.n[k] >= 0)
					((float4 *)(g + k * p.d))[j] = sumFirst<false>(m, k, next);
		}
		for (; more != 0; more &= more - 1) {
			int k = lowest(more);
			for (int j = threadIdx.x; j < n; j += x)
				((float4 *)(g + k * p.d))[j] = sumColumn<false, MORE_AHEAD, float4>(p, p.start[s + k], p.start[s + k + 1], j);
		}
		__syncwarp();
		if (changesGradient(o)) {
			for (int k = 0; k < N; k++)
				if (mine >> k & 1)
					for (int j = threadIdx.x; j < p.d; j += x)
						g[k * p.d + j] = changed(o, g[k * p.d + j], row[k][j]);
			__syncwarp();
		}
		for (int i = threadIdx.x; i < N * LANES; i += x) {
			const float *from = g + i / LANES * p.d;
			float sum = 0.0f;
#pragma unroll 8
			for (int j = i % LANES; j < p.d; j += LANES)
				sum = sum + from[j] * from[j];
			squared[i] = sum;
		}
		__syncwarp();
		float below[N];
#pragma unroll
		for (int k = 0; k < N; k++) {
			q[k] = q[k] + meanSquare(squared + k * LANES, p.d);
			below[k] = __fsqrt_rn(q[k]) + o.eps;
			if (mine >> k & 1 && threadIdx.x == 0)
				row[k][p.d] = q[k];
		}
		for (int j = threadIdx.x; j < p.d; j += W * x) {
			if (j != (int)threadIdx.x)
				load(j);
#pragma unroll
			for (int k = 0; k < N; k++)
#pragma unroll
				for (int i = 0; i < W; i++)
					if (mine >> k & 1 && j + i * x < p.d)
						row[k][j + i * x] = w[k][i] - (o.lr * g[k * p.d + j + i * x]) / below[k];
		}
		__syncwarp(); // g and squared are free again
	}
}

// sum_segments: dst row s = the sum of its lookups; long segments are listed for sum_long.
KERNEL sum_segments(Segments p) { sums<float, false, SUMS_AT_ONCE>(p); }
KERNEL __launch_bounds__(256, SUM_BLOCKS) sum_segments_4(Segments p) { sums<float4, false, SUMS_AT_ONCE>(p); }

// sum_weighted is sum_segments with a factor for each position.
KERNEL sum_weighted(Segments p) { sums<float, true, SUMS_AT_ONCE>(p); }
KERNEL sum_weighted_4(Segments p) { sums<float4, true, SUMS_AT_ONCE>(p); }

// update_parts updates row slots[s] by the sum of segment s.
KERNEL update_parts(Segments p) { segments<float>(p); }
KERNEL update_parts_4(Segments p) { segments<float4>(p); }

// update_rows_0 to 2 are update_parts_4 for rows of one part, by the floats of state of a weight.
// update_rowwise is that for row-wise Adagrad.
KERNEL __launch_bounds__(256, SUM_BLOCKS_0) update_rows_0(Segments p) { updateRows<SGD, SUMS_AT_ONCE>(p); }
KERNEL __launch_bounds__(256, SUM_BLOCKS_1) update_rows_1(Segments p) {
	if (p.parts[0].opt.kind == MOMENTUM)
		updateRows<MOMENTUM, UPDATES_AT_ONCE>(p);
	else
		updateRows<ADAGRAD, UPDATES_AT_ONCE>(p);
}
KERNEL __launch_bounds__(256, SUM_BLOCKS_2) update_rows_2(Segments p) {
	if (p.parts[0].opt.kind == ADAM)
		updateRows<ADAM, UPDATES_AT_ONCE>(p);
	else if (p.parts[0].opt.kind == ADAMW)
		updateRows<ADAMW, UPDATES_AT_ONCE>(p);
	else
		updateRows<FTRL, UPDATES_AT_ONCE>(p);
}
KERNEL __launch_bounds__(256, SUM_BLOCKS_R) update_rowwise(Segments p) { updateRowwise<SUMS_AT_ONCE>(p); }

// copyLater starts a copy of V to shared memory. endCopies ends a group of copies, of which
// waitCopies leaves the last N to continue.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <typename V> __device__ __forceinline__ void copyLater(V *to, const V *from) {
	u32 at = (u32)__cvta_generic_to_shared(to);
	if (sizeof(V) == 16)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from));
}
__device__ __forceinline__ void endCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void waitCopies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
template <typename V> __device__ __forceinline__ void copyLater(V *to, const V *from) { *to = *from; }
__device__ __forceinline__ void endCopies() {}
template <int N> __device__ __forceinline__ void waitCopies() {}
#endif

// Tiles of LONG_LOOKUPS lookups of LONG_COLUMNS columns are loaded LONG_TILES - 1 ahead of the
// additions, and their positions as far ahead of them. One warp adds, the others load.
struct LongTiles {
	float4 x[LONG_TILES][LONG_LOOKUPS][LONG_COLUMNS / 4];
	float f[LONG_TILES][LONG_LOOKUPS];
	int pos[2 * LONG_TILES][LONG_LOOKUPS];
};

// loadPositions starts the copies of the positions of tile i of [lo, hi).
__device__ __forceinline__ void loadPositions(const Segments &p, LongTiles &t, int i, int lo, int hi) {
	int at = lo + i * LONG_LOOKUPS, k = (threadIdx.y - 1) * LONG_LANES + threadIdx.x;
	for (; k < LONG_LOOKUPS && at + k < hi; k += LONG_LOADERS)
		copyLater(&t.pos[i % (2 * LONG_TILES)][k], p.pos + at + k);
}

// loadTile starts the copies of tile i: columns [column, column + LONG_COLUMNS) of its lookups.
template <typename V> __device__ __forceinline__ void loadTile(const Segments &p, LongTiles &t, int i, int lo, int hi, int column) {
	const int width = sizeof(V) / sizeof(float), each = LONG_COLUMNS / width;
	const int at = lo + i * LONG_LOOKUPS, n = hi - at < LONG_LOOKUPS ? hi - at : LONG_LOOKUPS;
	const int *pos = t.pos[i % (2 * LONG_TILES)];
	V *to = (V *)t.x[i % LONG_TILES];
	const int thread = (threadIdx.y - 1) * LONG_LANES + threadIdx.x, j = thread % each;
	if (column + j * width < p.d)
#pragma unroll 4
		for (int k = thread / each; k < n; k += LONG_LOADERS / each) {
			if (outside(p.fault, p.op, POS, pos[k], p.limit))
				to[k * each + j] = zeroOf(V());
			else
				copyLater(to + k * each + j, (const V *)(lookup(p, pos[k]) + column) + j);
		}
	if (p.factors)
		for (int k = thread; k < n; k += LONG_LOADERS)
			copyLater(&t.f[i % LONG_TILES][k], p.factors + at + k);
}

// addTile adds n lookups of a tile to a thread's sum.
__device__ __forceinline__ float addTile(const Segments &p, const LongTiles &t, int i, int n, float sum) {
	const float *x = (const float *)t.x[i % LONG_TILES] + threadIdx.x, *f = t.f[i % LONG_TILES];
	if (p.factors) {
		for (int k = 0; k < n; k++)
			sum = sum + f[k] * x[k * LONG_COLUMNS];
		return sum;
	}
	if (n == LONG_LOOKUPS) { // a batch is loaded while the one before is added
		float y[2][LONG_BATCH];
#pragma unroll
		for (int k = -LONG_BATCH; k < LONG_LOOKUPS; k += LONG_BATCH) {
#pragma unroll
			for (int b = 0; b < LONG_BATCH && k + LONG_BATCH < LONG_LOOKUPS; b++)
				y[(k / LONG_BATCH + 1) % 2][b] = x[(k + LONG_BATCH + b) * LONG_COLUMNS];
#pragma unroll
			for (int b = 0; b < LONG_BATCH && k >= 0; b++)
				sum = sum + y[k / LONG_BATCH % 2][b];
		}
		return sum;
	}
#pragma unroll 4
	for (int k = 0; k < n; k++)
		sum = sum + x[k * LONG_COLUMNS];
	return sum;
}

template <typename V> __device__ __forceinline__ float sumLong(const Segments &p, LongTiles &t, int lo, int hi, int column) {
	const int tiles = (hi - lo + LONG_LOOKUPS - 1) / LONG_LOOKUPS;
	const bool loads = threadIdx.y > 0, adds = threadIdx.y == 0 && threadIdx.x < LONG_COLUMNS;
	float sum = 0.0f;
	__syncthreads(); // the tiles of the segment before are free
	if (loads) {
		for (int i = 0; i < LONG_TILES; i++)
			loadPositions(p, t, i, lo, hi);
		endCopies();
		waitCopies<0>();
	}
	__syncthreads();
	// Group i of copies: tile i, and the positions of tile i + LONG_TILES.
	if (loads)
		for (int i = 0; i < LONG_TILES - 1; i++) {
			if (i < tiles)
				loadTile<V>(p, t, i, lo, hi, column);
			loadPositions(p, t, i + LONG_TILES, lo, hi);
			endCopies();
		}
	for (int i = 0; i < tiles; i++) {
		if (loads)
			waitCopies<LONG_TILES - 2>(); // tile i is there
		__syncthreads(); // and tile i - 1 is added
		if (adds) {
			int n = hi - lo - i * LONG_LOOKUPS;
			sum = addTile(p, t, i, n < LONG_LOOKUPS ? n : LONG_LOOKUPS, sum);
		}
		if (loads) {
			int next = i + LONG_TILES - 1;
			if (next < tiles)
				loadTile<V>(p, t, next, lo, hi, column);
			loadPositions(p, t, next + LONG_TILES, lo, hi);
			endCopies();
		}
	}
	if (loads)
		waitCopies<0>();
	return sum;
}

// sum_long sums the listed segments: blockDim is (LONG_LANES, 1 + loaders), and blocks take
// turns to take LONG_COLUMNS columns of a segment. Sums go to dst, or to row i of sums for update_long.
KERNEL sum_long(Segments p) {
	__shared__ LongTiles tiles;
	__shared__ int taken;
	const int parts = (p.d + LONG_COLUMNS - 1) / LONG_COLUMNS;
	const i64 work = (i64)longOnes(p) * parts;
	const bool four = ((u64)p.src.p % 16 | p.src.stride % 4 | p.d % 4) == 0;
	while (work > 0) {
		if (threadIdx.y == 0 && threadIdx.x == 0)
			taken = atomicAdd(counter(p, TAKEN), 1);
		__syncthreads();
		i64 w = taken, i = w / parts;
		if (w >= work)
			break;
		int s = longOne(p, i), first = (int)(w - i * parts) * LONG_COLUMNS, column = first + threadIdx.x;
		int lo = p.start[s], hi = p.start[s + 1];
		float sum = four ? sumLong<float4>(p, tiles, lo, hi, first) : sumLong<float>(p, tiles, lo, hi, first);
		if (threadIdx.y == 0 && threadIdx.x < LONG_COLUMNS && column < p.d)
			*(p.update ? p.sums + i * p.d + column : p.dst.p + s * p.dst.stride + column) = sum;
	}
}

// update_long updates the rows whose sums sum_long left; a block takes a row.
KERNEL update_long(Segments p) {
	__shared__ float lanes[LANES];
	if (unknownRule(p))
		return;
	const int n = longOnes(p);
	for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
		float *row = p.rows.p + p.slots[longOne(p, i)] * p.rows.stride;
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
