// Kernels for segments that are not long, several at a time.

// A group takes N segments at a time: it loads all their starts, then the positions of their
// FIRST_ONES lookups, then those lookups and the rows to update. Most segments have no more
// lookups; the others follow one by one.
enum { FIRST_ONES = 2, MORE_AHEAD = 4 };

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

// sumFirst adds up column j of the loaded lookups of segment k.
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

// updateRowwise is updateRows for row-wise Adagrad, with rows of any alignment. The group's
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
KERNEL __launch_bounds__(256, 4) sum_segments_4(Segments p) { sums<float4, false, SUMS_AT_ONCE>(p); }

// sum_weighted is sum_segments with a factor for each position.
KERNEL sum_weighted(Segments p) { sums<float, true, SUMS_AT_ONCE>(p); }
KERNEL sum_weighted_4(Segments p) { sums<float4, true, SUMS_AT_ONCE>(p); }

// update_parts updates row slots[s] by the sum of segment s.
KERNEL update_parts(Segments p) { segments<float>(p); }
KERNEL update_parts_4(Segments p) { segments<float4>(p); }

// update_rows_0 to 2 are update_parts_4 for rows of one part, by the floats of state of a weight.
// update_rowwise is that for row-wise Adagrad.
KERNEL __launch_bounds__(256, 4) update_rows_0(Segments p) { updateRows<SGD, SUMS_AT_ONCE>(p); }
KERNEL __launch_bounds__(256, 4) update_rows_1(Segments p) {
	if (p.parts[0].opt.kind == MOMENTUM)
		updateRows<MOMENTUM, UPDATES_AT_ONCE>(p);
	else
		updateRows<ADAGRAD, UPDATES_AT_ONCE>(p);
}
KERNEL __launch_bounds__(256, 3) update_rows_2(Segments p) {
	if (p.parts[0].opt.kind == ADAM)
		updateRows<ADAM, UPDATES_AT_ONCE>(p);
	else if (p.parts[0].opt.kind == ADAMW)
		updateRows<ADAMW, UPDATES_AT_ONCE>(p);
	else
		updateRows<FTRL, UPDATES_AT_ONCE>(p);
}
KERNEL __launch_bounds__(256, 4) update_rowwise(Segments p) { updateRowwise<SUMS_AT_ONCE>(p); }
