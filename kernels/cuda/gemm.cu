// Exact matrix products: every element is one chain of FMAs over k ascending, from +0.0, so
// that the bits are those of the CPU's products, of any tile and any card. No k is padded: a
// chain is not continued by zeros, whose product may turn -0.0 into +0.0.
//
//   linear        y(m, n)  = act(x(m, k) wᵀ + b)      w(n, k)
//   grad_input    dx(m, k) = dy(m, n) w(n, k), gated   chains over n
//   grad_weight   dw(n, k) = dyᵀ x, db = column sums   chains over m
//
// One template computes all three: C(i, j) = sum over p of A(i, p) B(p, j). Each operand is
// stored along p or across it. A block of THREADS computes a tile of TILE x TILE, each thread
// EACH x EACH of it, from slices of DEPTH of p in shared memory. There are two slices: the next
// one is loaded through registers during the computation with the current one. A thread's
// outputs form squares of PART x PART, so that it reads four operands at once and neighbours
// read other banks. Nothing is read outside an operand: its last row, or column, is read again
// instead, for outputs that are not stored. Small tiles are for products with few elements and
// long chains: they give more blocks.

struct Product {
	Mat c, a, b;
	const float *bias; // linear: of C's columns, or 0
	Mat gate;          // grad_input: of C's shape, or 0
	float *sums;       // grad_weight: of A's rows, or 0
	int m, n, k;       // C is (m, n), chains are k long
	int relu, wide;    // wide: rows of C and of the gate can be moved four floats at a time
	int pad;
};

// The layout of an operand: along p, the k floats of one row are consecutive in memory; across,
// the floats of its rows at one p are.
enum Lie { ALONG, ACROSS };

// Slices loads one thread's part of an operand's slices: consecutive threads load consecutive
// floats.
template <Lie LIE, int TILE, int DEPTH, int THREADS> struct Slices {
	enum { LOADS = TILE * DEPTH / THREADS };
	const float *from;
	int stride, k, offset[LIE == ALONG ? LOADS : 1];
	float next[LOADS];

	// place returns the place in a slice of number l of this thread's floats: its row and its p.
	static __device__ __forceinline__ int row(int t, int l) { return LIE == ALONG ? t / DEPTH + l * (THREADS / DEPTH) : t % TILE; }
	static __device__ __forceinline__ int depth(int t, int l) { return LIE == ALONG ? t % DEPTH : t / TILE + l * (THREADS / TILE); }

	// begin starts a tile, whose last rows may be outside the operand.
	__device__ __forceinline__ void begin(const Mat &x, int first, int rows, int length) {
		stride = (int)x.stride;
		k = length;
		if (LIE == ALONG) {
			from = x.p + (i64)first * stride;
#pragma unroll
			for (int l = 0; l < LOADS; l++) {
				int r = row(threadIdx.x, l), last = rows - 1 - first;
				offset[LIE == ALONG ? l : 0] = (r < last ? r : last) * stride;
			}
		} else {
			int r = first + row(threadIdx.x, 0);
			from = x.p + (r < rows ? r : rows - 1);
		}
	}

	__device__ __forceinline__ void load(int at) {
#pragma unroll
		for (int l = 0; l < LOADS; l++) {
			int q = at + depth(threadIdx.x, l);
			q = q < k ? q : k - 1;
			next[l] = LIE == ALONG ? from[offset[LIE == ALONG ? l : 0] + q] : from[(i64)q * stride];
		}
	}

	template <int ROW> __device__ __forceinline__ void store(float (*to)[ROW]) const {
#pragma unroll
		for (int l = 0; l < LOADS; l++)
			to[depth(threadIdx.x, l)][row(threadIdx.x, l)] = next[l];
	}
};

// operands reads a thread's EACH operands of one p.
template <int TILE, int EACH, int PART> __device__ __forceinline__ void operands(float *x, const float *from) {
#pragma unroll
	for (int u = 0; u < EACH / PART; u++) {
		if (PART == 4) {
			float4 v = *(const float4 *)(from + u * (TILE * PART / EACH));
			x[4 * u] = v.x;
			x[4 * u + 1] = v.y;
			x[4 * u + 2] = v.z;
			x[4 * u + 3] = v.w;
		} else
			x[u] = from[u];
	}
}

// finished returns the element of C for a chain's sum: with bias, activation and gate.
__device__ __forceinline__ float finished(const Product &p, float v, float bias) {
	if (p.bias)
		v = v + bias;
	return p.relu && v < 0.0f ? 0.0f : v;
}

template <Lie A, Lie B, int TILE, int EACH, int DEPTH, bool SUMS> __device__ __forceinline__ void product(const Product &p) {
	const int SIDE = TILE / EACH, THREADS = SIDE * SIDE, ROW = TILE + 4, PART = EACH < 4 ? 1 : 4, PARTS = EACH / PART;
	__shared__ float4 memory[2][2][DEPTH][ROW / 4]; // slices, of A and B
	const int t = threadIdx.x, ti = t / SIDE, tj = t % SIDE;
	// There are column sums even if C has no columns.
	const int across = p.n > 0 ? (p.n + TILE - 1) / TILE : 1;
	const i64 tiles = (i64)across * ((p.m + TILE - 1) / TILE);
	for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		const int row = (int)(tile / across) * TILE, col = (int)(tile % across) * TILE;
		const bool sums = SUMS && p.sums && col == 0 && t < TILE;
		float c[EACH][EACH], column = 0.0f;
#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				c[i][j] = 0.0f;
		Slices<A, TILE, DEPTH, THREADS> a;
		Slices<B, TILE, DEPTH, THREADS> b;
		a.begin(p.a, row, p.m, p.k);
		b.begin(p.b, col, p.n, p.k);
		auto slice = [&](int number, int operand) { return (float(*)[ROW])memory[number][operand]; };
		auto load = [&](int from) {
			a.load(from);
			if (!SUMS || p.n > 0)
				b.load(from);
		};
		auto store = [&](int number) {
			a.store(slice(number, 0));
			b.store(slice(number, 1));
		};
		if (p.k > 0) {
			load(0);
			store(0);
		}
		__syncthreads();
		for (int from = 0, at = 0; from < p.k; from += DEPTH, at ^= 1) {
			const bool more = from + DEPTH < p.k;
			if (more)
				load(from + DEPTH);
			const float *x0 = &slice(at, 0)[0][PART * ti], *y0 = &slice(at, 1)[0][PART * tj];
			auto link = [&](int q) {
				float x[EACH], y[EACH];
				operands<TILE, EACH, PART>(x, x0 + q * ROW);
				operands<TILE, EACH, PART>(y, y0 + q * ROW);
#pragma unroll
				for (int i = 0; i < EACH; i++)
#pragma unroll
					for (int j = 0; j < EACH; j++)
						c[i][j] = chain(x[i], y[j], c[i][j]);
			};
			const int depth = p.k - from < DEPTH ? p.k - from : DEPTH;
			if (depth == DEPTH) {
#pragma unroll 8
				for (int q = 0; q < DEPTH; q++)
					link(q);
			} else {
#pragma unroll 1
				for (int q = 0; q < depth; q++)
					link(q);
			}
			if (sums)
				for (int q = 0; q < depth; q++)
					column = column + slice(at, 0)[q][t];
			if (more)
				store(at ^ 1);
			__syncthreads();
		}
		if (sums && row + t < p.m)
			p.sums[row + t] = column;
#pragma unroll
		for (int w = 0; w < PARTS; w++) {
			const int s = col + w * (TILE / PARTS) + PART * tj;
			float bias[PART];
#pragma unroll
			for (int j = 0; j < PART; j++)
				bias[j] = p.bias && s + j < p.n ? p.bias[s + j] : 0.0f;
#pragma unroll
			for (int i = 0; i < EACH; i++) {
				const int r = row + i / PART * (TILE / PARTS) + PART * ti + i % PART;
				if (r >= p.m)
					break;
				float *to = p.c.p + r * p.c.stride + s;
				const float *gate = p.gate.p + r * p.gate.stride + s;
				if (PART == 4 && p.wide && s + 4 <= p.n) {
					const float *v = c[i] + PART * w;
					float4 out = make_float4(finished(p, v[0], bias[0]), finished(p, v[1 % PART], bias[1 % PART]), finished(p, v[2 % PART], bias[2 % PART]), finished(p, v[3 % PART], bias[3 % PART]));
					if (p.gate.p) {
						float4 g = *(const float4 *)gate;
						out = make_float4(g.x > 0.0f ? out.x : 0.0f, g.y > 0.0f ? out.y : 0.0f, g.z > 0.0f ? out.z : 0.0f, g.w > 0.0f ? out.w : 0.0f);
					}
					*(float4 *)to = out;
					continue;
				}
#pragma unroll
				for (int j = 0; j < PART; j++) {
					if (s + j >= p.n)
						break;
					float v = finished(p, c[i][PART * w + j], bias[j]);
					to[j] = p.gate.p && !(gate[j] > 0.0f) ? 0.0f : v;
				}
			}
		}
	}
}

// The tiles, their threads and slices are those of kernels.productTiles. Small ones have deep
// slices, so that the computation with a slice takes longer than loading the next one.
KERNEL __launch_bounds__(256, 2) linear_128(Product p) { product<ALONG, ALONG, 128, 8, 8, false>(p); }
KERNEL __launch_bounds__(64, 6) linear_64(Product p) { product<ALONG, ALONG, 64, 8, 8, false>(p); }
KERNEL __launch_bounds__(64, 6) linear_32(Product p) { product<ALONG, ALONG, 32, 4, 32, false>(p); }
KERNEL __launch_bounds__(256) linear_16(Product p) { product<ALONG, ALONG, 16, 1, 64, false>(p); }
KERNEL __launch_bounds__(256, 2) grad_input_128(Product p) { product<ALONG, ACROSS, 128, 8, 8, false>(p); }
KERNEL __launch_bounds__(64, 6) grad_input_64(Product p) { product<ALONG, ACROSS, 64, 8, 8, false>(p); }
KERNEL __launch_bounds__(64, 6) grad_input_32(Product p) { product<ALONG, ACROSS, 32, 4, 32, false>(p); }
KERNEL __launch_bounds__(256) grad_input_16(Product p) { product<ALONG, ACROSS, 16, 1, 64, false>(p); }
KERNEL __launch_bounds__(256, 2) grad_weight_128(Product p) { product<ACROSS, ACROSS, 128, 8, 8, true>(p); }
KERNEL __launch_bounds__(64, 6) grad_weight_64(Product p) { product<ACROSS, ACROSS, 64, 8, 8, true>(p); }
KERNEL __launch_bounds__(64, 6) grad_weight_32(Product p) { product<ACROSS, ACROSS, 32, 4, 32, true>(p); }
KERNEL __launch_bounds__(256) grad_weight_16(Product p) { product<ACROSS, ACROSS, 16, 1, 64, true>(p); }
