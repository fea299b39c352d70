// Exact matrix products: every element is one chain of FMAs over k ascending, from +0.0, so
// that the bits are those of the CPU's products, of any tile and any card. No k is padded: a
// chain is not continued by zeros, whose product may turn -0.0 into +0.0.
//
//   linear        y(m, n)  = act(x(m, k) wᵀ + b)      w(n, k)
//   grad_input    dx(m, k) = dy(m, n) w(n, k), gated   chains over n
//   grad_weight   dw(n, k) = dyᵀ x, db = column sums   chains over m
//
// One body for all three, C(i, j) = sum over p of A(i, p) B(p, j), where each operand lies
// along p or across it. A block of THREADS computes a tile of TILE x TILE, each thread EACH x
// EACH of it, from slices of DEPTH of p in shared memory, of which the next is on its way in
// registers while one is computed with. Small tiles are for products with few elements, whose
// chains are long: there are more blocks of them.

struct Product {
	Mat c, a, b;
	const float *bias; // linear: of C's columns, or 0
	Mat gate;          // grad_input: of C's shape, or 0
	float *sums;       // grad_weight: of A's rows, or 0
	int m, n, k;       // C is (m, n), chains are k long
	int relu;
};

// Which way an operand lies: along p, its k floats of a row follow each other; across, those
// of its rows do.
enum Lie { ALONG, ACROSS };

template <Lie LIE> __device__ __forceinline__ float element(const Mat &x, i64 i, i64 p) {
	return LIE == ALONG ? x.p[i * x.stride + p] : x.p[p * x.stride + i];
}

template <Lie A, Lie B, int TILE, int EACH, int DEPTH> __device__ __forceinline__ void product(const Product &p) {
	const int SIDE = TILE / EACH, THREADS = SIDE * SIDE, LOADS = TILE * DEPTH / THREADS, ROW = TILE + 4;
	__shared__ float a[DEPTH][ROW], b[DEPTH][ROW];
	const int t = threadIdx.x, ti = t / SIDE, tj = t % SIDE;
	// Column sums are there without columns, too.
	const i64 across = p.n > 0 ? (p.n + TILE - 1) / TILE : 1, tiles = across * ((p.m + TILE - 1) / TILE);
	for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		const i64 row = tile / across * TILE, col = tile % across * TILE;
		float c[EACH][EACH], nextA[LOADS], nextB[LOADS], column[EACH];
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			column[i] = 0.0f;
#pragma unroll
			for (int j = 0; j < EACH; j++)
				c[i][j] = 0.0f;
		}
		// Threads that follow each other load floats that do.
		auto load = [&](int from) {
#pragma unroll
			for (int l = 0; l < LOADS; l++) {
				int e = t + l * THREADS;
				int ia = A == ALONG ? e / DEPTH : e % TILE, pa = A == ALONG ? e % DEPTH : e / TILE;
				int ib = B == ALONG ? e / DEPTH : e % TILE, pb = B == ALONG ? e % DEPTH : e / TILE;
				nextA[l] = row + ia < p.m && from + pa < p.k ? element<A>(p.a, row + ia, from + pa) : 0.0f;
				nextB[l] = col + ib < p.n && from + pb < p.k ? element<B>(p.b, col + ib, from + pb) : 0.0f;
			}
		};
		load(0);
		for (int from = 0; from < p.k; from += DEPTH) {
			__syncthreads(); // the slice before is computed with
#pragma unroll
			for (int l = 0; l < LOADS; l++) {
				int e = t + l * THREADS;
				a[A == ALONG ? e % DEPTH : e / TILE][A == ALONG ? e / DEPTH : e % TILE] = nextA[l];
				b[B == ALONG ? e % DEPTH : e / TILE][B == ALONG ? e / DEPTH : e % TILE] = nextB[l];
			}
			__syncthreads();
			load(from + DEPTH);
			int depth = p.k - from < DEPTH ? p.k - from : DEPTH;
			auto link = [&](int q) {
				float x[EACH], y[EACH];
#pragma unroll
				for (int i = 0; i < EACH; i++)
					x[i] = a[q][ti * EACH + i];
#pragma unroll
				for (int j = 0; j < EACH; j++)
					y[j] = b[q][tj + j * SIDE];
#pragma unroll
				for (int i = 0; i < EACH; i++)
#pragma unroll
					for (int j = 0; j < EACH; j++)
						c[i][j] = chain(x[i], y[j], c[i][j]);
				if (p.sums && tj == 0 && col == 0)
#pragma unroll
					for (int i = 0; i < EACH; i++)
						column[i] = column[i] + x[i];
			};
			if (depth == DEPTH) {
#pragma unroll
				for (int q = 0; q < DEPTH; q++)
					link(q);
			} else
				for (int q = 0; q < depth; q++)
					link(q);
		}
		__syncthreads();
		for (int i = 0; i < EACH; i++) {
			i64 r = row + ti * EACH + i;
			if (r >= p.m)
				break;
			if (p.sums && tj == 0 && col == 0)
				p.sums[r] = column[i];
			for (int j = 0; j < EACH; j++) {
				i64 s = col + tj + j * SIDE;
				if (s >= p.n)
					break;
				float v = c[i][j];
				if (p.bias)
					v = v + p.bias[s];
				if (p.relu && v < 0.0f)
					v = 0.0f;
				if (p.gate.p && !(p.gate.p[r * p.gate.stride + s] > 0.0f))
					v = 0.0f;
				p.c.p[r * p.c.stride + s] = v;
			}
		}
	}
}

KERNEL __launch_bounds__(256, 2) linear_128(Product p) { product<ALONG, ALONG, 128, 8, 8>(p); }
KERNEL linear_64(Product p) { product<ALONG, ALONG, 64, 4, 16>(p); }
KERNEL linear_16(Product p) { product<ALONG, ALONG, 16, 1, 16>(p); }
KERNEL __launch_bounds__(256, 2) grad_input_128(Product p) { product<ALONG, ACROSS, 128, 8, 8>(p); }
KERNEL grad_input_64(Product p) { product<ALONG, ACROSS, 64, 4, 16>(p); }
KERNEL grad_input_16(Product p) { product<ALONG, ACROSS, 16, 1, 16>(p); }
KERNEL __launch_bounds__(256, 2) grad_weight_128(Product p) { product<ACROSS, ACROSS, 128, 8, 8>(p); }
KERNEL grad_weight_64(Product p) { product<ACROSS, ACROSS, 64, 4, 16>(p); }
KERNEL grad_weight_16(Product p) { product<ACROSS, ACROSS, 16, 1, 16>(p); }
