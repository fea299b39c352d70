// Rows by index: copied, added, drawn, updated. A group of threads takes a row. Each of its
// threads takes columns, four at a time if all operands are aligned for that.

// moveRows copies n columns of AT_ONCE rows by a group. All loads precede the stores, because
// the compiler must assume that they overlap and would not reorder them. A missing row is 0.
enum { AT_ONCE = 4 };

template <typename V> __device__ __forceinline__ void moveRows(V *const *to, const V *const *from, int n) {
	for (int j = threadIdx.x; j < n; j += blockDim.x) {
		V v[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++)
			if (from[k])
				v[k] = from[k][j];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++)
			if (from[k])
				to[k][j] = v[k];
	}
}

// indexes reads the indexes of AT_ONCE rows from row first on; those beyond n are -1.
__device__ __forceinline__ void indexes(int *x, const int *index, i64 first, i64 n) {
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		i64 l = first + k * rowStep();
		x[k] = l < n ? index[l] : -1;
	}
}

struct Gather {
	Mat dst, src;
	const int *index;
	u64 *fault;
	i64 lookups, limit; // of src's rows
	int t, d;           // lookups in a row of dst, floats of each
	Divisor by;         // t
};

template <typename V> __device__ __forceinline__ void gather(const Gather &p) {
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	for (i64 first = firstRow(); first < p.lookups; first += AT_ONCE * rowStep()) {
		int x[AT_ONCE];
		indexes(x, p.index, first, p.lookups);
		const V *from[AT_ONCE];
		V *to[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			i64 l = first + k * rowStep();
			i64 row = p.t == 1 ? l : quotient((u32)l, p.by);
			bool here = l < p.lookups && !outside(p.fault, 1, INDEX, x[k], p.limit);
			from[k] = here ? (const V *)(p.src.p + x[k] * p.src.stride) : 0;
			to[k] = (V *)(p.dst.p + row * p.dst.stride + (l - row * p.t) * p.d);
		}
		moveRows(to, from, n);
	}
}

// gather_rows: dst(i, c*d .. c*d+d) = src row index[i*t + c].
KERNEL gather_rows(Gather p) { gather<float>(p); }
KERNEL gather_rows_4(Gather p) { gather<float4>(p); }

template <typename V> __device__ __forceinline__ void scatter(const Gather &p) {
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	for (i64 first = firstRow(); first < p.lookups; first += AT_ONCE * rowStep()) {
		int x[AT_ONCE];
		indexes(x, p.index, first, p.lookups);
		const V *from[AT_ONCE];
		V *to[AT_ONCE];
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++) {
			i64 l = first + k * rowStep();
			bool here = l < p.lookups && !outside(p.fault, 2, INDEX, x[k], p.limit);
			from[k] = here ? (const V *)(p.src.p + l * p.src.stride) : 0;
			to[k] = (V *)(p.dst.p + x[k] * p.dst.stride);
		}
		moveRows(to, from, n);
	}
}

// scatter_rows: dst row index[i] = src row i; no index occurs twice.
KERNEL scatter_rows(Gather p) { scatter<float>(p); }
KERNEL scatter_rows_4(Gather p) { scatter<float4>(p); }

struct Xor {
	Mat dst, a, b; // dst.p 0: the rows of a are changed in place
	const int *ia, *ib;
	const unsigned char *factors; // of b's rows, or 0: all are 1
	u64 *fault;
	i64 rows, aLimit, bLimit;
	int d, op;
};

__device__ __forceinline__ u32 exclusive(u32 a, u32 b) { return a ^ b; }
__device__ __forceinline__ uint4 exclusive(uint4 a, uint4 b) { return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w); }

// timesX multiplies the four bytes of a word by x in GF(2^8) with the polynomial 0x11D.
__device__ __forceinline__ u32 timesX(u32 a) { return (a & 0x7f7f7f7fu) << 1 ^ (a >> 7 & 0x01010101u) * 0x1du; }

// times is the bytes of a times a factor: the sum of a * x^i over the bits i that it has.
__device__ __forceinline__ u32 times(u32 a, int factor) {
	u32 sum = 0;
#pragma unroll
	for (int i = 0; i < 8; i++, a = timesX(a))
		if (factor >> i & 1)
			sum ^= a;
	return sum;
}
__device__ __forceinline__ uint4 times(uint4 a, int factor) {
	return make_uint4(times(a.x, factor), times(a.y, factor), times(a.z, factor), times(a.w, factor));
}

template <typename V> __device__ __forceinline__ void xorRows(const Xor &p) {
	const int lanes = sizeof(V) / sizeof(float), n = p.d / lanes;
	for (i64 i = firstRow(); i < p.rows; i += rowStep()) {
		int x = p.ia[i], y = p.ib[i];
		if (outside(p.fault, p.op, FIRST, x, p.aLimit) || outside(p.fault, p.op, SECOND, y, p.bLimit))
			continue;
		V *a = (V *)(p.a.p + x * p.a.stride);
		const V *b = (const V *)(p.b.p + y * p.b.stride);
		V *to = p.dst.p ? (V *)(p.dst.p + i * p.dst.stride) : a;
		const int factor = p.factors ? p.factors[i] : 1;
		if (factor == 1)
			for (int j = threadIdx.x; j < n; j += blockDim.x)
				to[j] = exclusive(a[j], b[j]);
		else
			for (int j = threadIdx.x; j < n; j += blockDim.x)
				to[j] = exclusive(a[j], times(b[j], factor));
	}
}

// xor_rows: dst row i, or a row ia[i] itself, = a row ia[i] XOR b row ib[i], or its product
// with a factor.
KERNEL xor_rows(Xor p) { xorRows<u32>(p); }
KERNEL xor_rows_4(Xor p) { xorRows<uint4>(p); }

// The rows of a table are drawn by Philox4x32-10 from (seed, table, id), see internal/rng.

struct Draw {
	Mat rows;
	const int *slots;
	const i64 *base;    // first global row of each table, and the row count
	const float *scale; // of each table, for part 0, then for part 1 ...
	u64 *fault;
	u64 seed;
	i64 n, limit; // of slots
	i64 owners, owner;
	int tables, width, cols, each; // each: row i is the row of slots[i], and its initial weights are added to it
	int parts, widths[ROW_PARTS], pad;
};

__device__ __forceinline__ uint4 philox(u32 k0, u32 k1, uint4 c) {
	for (int i = 0; i < 10; i++) {
		u32 h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
		u32 h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
		c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return c;
}

// symmetric maps 23 random bits to (-1, 1) exactly.
__device__ __forceinline__ float symmetric(u32 u) { return ((float)(u >> 9) + 0.5f - 4194304.0f) * (1.0f / 4194304); }

enum { ROW_INIT = 1, PART_SHIFT = 24 }; // rng.RowInit, partShift

// draw_rows sets rows to their initial weights and clears their state (InitRows), or adds
// their initial weights to rows (XorInit).
KERNEL draw_rows(Draw p) {
	for (i64 i = firstRow(); i < p.n; i += rowStep()) {
		int slot = p.slots[i];
		if (outside(p.fault, p.each ? 6 : 5, SLOTS, slot, p.limit))
			continue;
		i64 global = (i64)slot * p.owners + p.owner;
		int lo = 0, hi = p.tables; // base[lo] <= global < base[hi]
		while (lo + 1 < hi) {
			int mid = (lo + hi) / 2;
			if (p.base[mid] <= global)
				lo = mid;
			else
				hi = mid;
		}
		u64 id = (u64)(global - p.base[lo]);
		float *row = p.rows.p + (p.each ? i : slot) * p.rows.stride;
		for (int part = 0, first = 0; part < p.parts; first += p.widths[part++]) {
			float scale = p.scale[part * p.tables + lo];
			for (int j = threadIdx.x; 4 * j < p.widths[part]; j += blockDim.x) {
				float w[4] = {0.0f, 0.0f, 0.0f, 0.0f};
				if (scale != 0.0f) {
					uint4 u = philox((u32)p.seed, (u32)(p.seed >> 32),
						make_uint4((u32)id, (u32)lo, (u32)(id >> 32) << 16 | ROW_INIT << 8, (u32)part << PART_SHIFT | (u32)j));
					w[0] = symmetric(u.x) * scale;
					w[1] = symmetric(u.y) * scale;
					w[2] = symmetric(u.z) * scale;
					w[3] = symmetric(u.w) * scale;
				}
				for (int k = 0; k < 4 && 4 * j + k < p.widths[part]; k++) {
					float *to = row + first + 4 * j + k;
					if (p.each)
						*(u32 *)to ^= __float_as_uint(w[k]);
					else
						*to = w[k];
				}
			}
		}
		if (!p.each)
			for (int j = p.width + threadIdx.x; j < p.cols; j += blockDim.x)
				row[j] = 0.0f;
	}
}
