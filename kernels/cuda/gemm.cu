// Exact matrix products: every element is one chain of FMAs over k ascending, from +0.0, so
// that the bits are those of the CPU's products, of any tile and any card. No k is padded: a
// chain is not continued by zeros, whose product may turn -0.0 into +0.0.
//
//   linear        y(m, n)  = act(x(m, k) wᵀ + b)      w(n, k)
//   grad_input    dx(m, k) = dy(m, n) w(n, k), gated   chains over n
//   grad_weight   dw(n, k) = dyᵀ x, db = column sums   chains over m
//
// One template computes all three: C(i, j) = sum over p of A(i, p) B(p, j). Each operand is
// stored along p or across it. A block computes a tile of M x N, each thread EM x EN of it, from
// slices of DEPTH of p in shared memory. STAGES slices are in use at a time: the block computes
// with one while the others are copied there. A chain cannot be split, so the gradients of weights
// have few elements and chains as long as a batch: they need a tile that gives each multiprocessor
// one block, and copies that start long before they are used.
//
// A warp has 8 x 4 threads. The outputs of a thread form squares of up to 4 x 4: it reads up to four
// operands at once, and the warp's reads of a slice meet no bank twice. Nothing is read outside an
// operand. A slice may have stale floats beyond its operand, which no stored output uses.

struct Product {
	Mat c, a, b;
	const float *bias; // linear: of C's columns, or 0
	Mat gate;          // grad_input: of C's shape, or 0
	float *sums;       // grad_weight: of A's rows, or 0
	int m, n, k;       // C is (m, n), chains are k long
	int relu;
	int wide; // bits: rows of C and of the gate, of A, of B can be moved four floats at a time
	int pad;
};

enum { WIDE_C = 1, WIDE_A = 2, WIDE_B = 4 };

// AHEAD_SUMS is the number of floats that a thread reads before it adds them to a column sum.
enum { AHEAD_SUMS = 16 };

// The layout of an operand: along p, the k floats of one row are consecutive in memory; across,
// the floats of its rows at one p are.
enum Lie { ALONG, ACROSS };

// Slices copies one thread's part of an operand's slices to shared memory, where the floats of
// one p are consecutive, ROW floats apart.
template <Lie LIE, int TILE, int DEPTH, int THREADS> struct Slices {
	enum {
		ROW = TILE + 4,
		FLOATS = DEPTH * ROW,
		RUN = 8,                               // along: consecutive floats of a row that as many threads copy
		ROWS = LIE == ALONG ? THREADS / RUN : 1, // along: rows that the block copies at once
		PASSES = LIE == ALONG ? TILE / ROWS : 1
	};
	const float *from;
	i64 stride;
	int k, left, offset[PASSES];
	bool wide;

	// begin starts a tile, whose last rows may be outside the operand.
	__device__ __forceinline__ void begin(const Mat &x, int first, int rows, int length, bool by4) {
		stride = x.stride;
		k = length;
		wide = by4;
		const int t = threadIdx.x;
		if (LIE == ALONG) {
			from = x.p + (i64)first * stride + t % RUN;
			left = rows;
#pragma unroll
			for (int l = 0; l < PASSES; l++) {
				int r = t / RUN + l * ROWS, last = rows - 1 - first;
				offset[l] = (r < last ? r : last) * (int)stride;
			}
		} else {
			from = x.p + first;
			left = rows - first;
		}
	}

	// copyLines copies slices across p: each thread EACH floats of every p of its own.
	template <int EACH> __device__ __forceinline__ void copyLines(float *to, int at) const {
		const int LINES = THREADS / (TILE / EACH); // p that the block copies at once
		const int UNROLLED = EACH == 4 ? DEPTH : 4; // copies of single floats take many instructions
		const int r = threadIdx.x % (TILE / EACH) * EACH, q0 = threadIdx.x / (TILE / EACH), n = left - r < EACH ? left - r : EACH;
		if (n <= 0)
			return;
		float *mine = to + q0 * ROW + r;
		const float *x = from + (at + q0) * stride + r;
#pragma unroll UNROLLED
		for (int q = 0; q < DEPTH; q += LINES)
			if (at + q0 + q < k && (DEPTH % LINES == 0 || q0 + q < DEPTH)) {
				if (EACH == 4)
					copyFloats(mine + q * ROW, x + q * stride, n);
				else
					copyFloat(mine + q * ROW, x + q * stride);
			}
	}

	__device__ __forceinline__ void copy(float *to, int at) const {
		const int t = threadIdx.x;
		if (LIE == ALONG) {
			if (left <= 0)
				return;
			float *mine = to + t % RUN * ROW + t / RUN;
#pragma unroll
			for (int q = 0; q < DEPTH; q += RUN)
				if (at + q + t % RUN < k)
#pragma unroll
					for (int l = 0; l < PASSES; l++)
						copyFloat(mine + q * ROW + l * ROWS, from + offset[l] + (at + q));
		} else {
			if (wide)
				copyLines<4>(to, at);
			else
				copyLines<1>(to, at);
		}
	}
};

// operands reads a thread's EACH operands of one p: squares of PART, LANES * PART apart.
template <int EACH, int PART, int LANES> __device__ __forceinline__ void operands(float *x, const float *from) {
#pragma unroll
	for (int u = 0; u < EACH / PART; u++) {
		const float *f = from + u * LANES * PART;
		if (PART == 4) {
			float4 v = *(const float4 *)f;
			x[4 * u] = v.x;
			x[4 * u + 1] = v.y;
			x[4 * u + 2] = v.z;
			x[4 * u + 3] = v.w;
		} else if (PART == 2) {
			float2 v = *(const float2 *)f;
			x[2 * u] = v.x;
			x[2 * u + 1] = v.y;
		} else
			x[u] = *f;
	}
}

// finished returns the element of C for a chain's sum: with bias and activation.
__device__ __forceinline__ float finished(const Product &p, float v, float bias) {
	if (p.bias)
		v = v + bias;
	return p.relu && v < 0.0f ? 0.0f : v;
}

// sumColumns computes the column sums of M of A's rows, each one chain of additions. A block does
// this alone, beside the blocks of the product: in one of these it would take as long again.
template <typename SA, int M, int DEPTH, int STAGES> __device__ __forceinline__ void sumColumns(const Product &p, float *memory, int stage, int row) {
	const int t = threadIdx.x;
	SA a;
	a.begin(p.a, row, p.m, p.k, p.wide & WIDE_A);
	auto copy = [&](int at) {
		if (at < p.k)
			a.copy(memory + at / DEPTH % STAGES * stage, at);
		commitCopies();
	};
#pragma unroll 1
	for (int s = 0; s < STAGES - 1; s++)
		copy(s * DEPTH);
	float sum = 0.0f;
#pragma unroll 1
	for (int from = 0; from < p.k; from += DEPTH) {
		waitCopies<STAGES - 2>();
		__syncthreads();
		copy(from + (STAGES - 1) * DEPTH);
		const float *x = memory + from / DEPTH % STAGES * stage + t;
		if (t < M) {
			const int depth = p.k - from < DEPTH ? p.k - from : DEPTH;
			int q = 0;
#pragma unroll 1
			for (; q + AHEAD_SUMS <= depth; q += AHEAD_SUMS) {
				float next[AHEAD_SUMS];
#pragma unroll
				for (int l = 0; l < AHEAD_SUMS; l++)
					next[l] = x[(q + l) * SA::ROW];
#pragma unroll
				for (int l = 0; l < AHEAD_SUMS; l++)
					sum = sum + next[l];
			}
			for (; q < depth; q++)
				sum = sum + x[q * SA::ROW];
		}
	}
	waitCopies<0>();
	__syncthreads(); // memory is free for the next tile
	if (t < M && row + t < p.m)
		p.sums[row + t] = sum;
}

template <Lie A, Lie B, int M, int N, int EM, int EN, int DEPTH, int STAGES, int LINKS, int UNROLL, bool SUMS> __device__ __forceinline__ void product(const Product &p) {
	const int THREADS = M / EM * (N / EN), LM = 8, LN = 4, PM = EM < 4 ? EM : 4, PN = EN < 4 ? EN : 4;
	typedef Slices<A, M, DEPTH, THREADS> SA;
	typedef Slices<B, N, DEPTH, THREADS> SB;
	const int STAGE = SA::FLOATS + SB::FLOATS;
	float *memory = (float *)sharedMemory;
	const int t = threadIdx.x, warp = t / 32, lane = t % 32, warpsAcross = N / EN / LN;
	// Eight threads that follow each other read two banks of one operand and four of the other.
	const int lm = lane >> 1 & 7, ln = (lane & 1) | (lane >> 4) << 1;
	const int mine = warp / warpsAcross * (LM * EM) + lm * PM, mineAcross = warp % warpsAcross * (LN * EN) + ln * PN;
	const int across = (p.n + N - 1) / N;
	const int down = (p.m + M - 1) / M, sums = SUMS && p.sums ? down : 0;
	const i64 tiles = (i64)across * down + sums;
	for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		if (tile >= tiles - sums) {
			sumColumns<SA, M, DEPTH, STAGES>(p, memory, STAGE, (int)(tile - (tiles - sums)) * M);
			continue;
		}
		const int row = (int)(tile / across) * M, col = (int)(tile % across) * N;
		float c[EM][EN];
#pragma unroll
		for (int i = 0; i < EM; i++)
#pragma unroll
			for (int j = 0; j < EN; j++)
				c[i][j] = 0.0f;
		SA a;
		SB b;
		a.begin(p.a, row, p.m, p.k, p.wide & WIDE_A);
		b.begin(p.b, col, p.n, p.k, p.wide & WIDE_B);
		auto copy = [&](int at) {
			float *to = memory + at / DEPTH % STAGES * STAGE;
			if (at < p.k) {
				a.copy(to, at);
				b.copy(to + SA::FLOATS, at);
			}
			commitCopies();
		};
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++)
			copy(s * DEPTH);
		for (int from = 0; from < p.k; from += DEPTH) {
			waitCopies<STAGES - 2>();
			__syncthreads();
			copy(from + (STAGES - 1) * DEPTH);
			const float *slice = memory + from / DEPTH % STAGES * STAGE;
			const float *x0 = slice + mine, *y0 = slice + SA::FLOATS + mineAcross;
			const int depth = p.k - from < DEPTH ? p.k - from : DEPTH;
			float x[2][LINKS][EM], y[2][LINKS][EN];
			auto fetch = [&](int into) {
#pragma unroll
				for (int l = 0; l < LINKS; l++) {
					operands<EM, PM, LM>(x[into][l], x0 + l * SA::ROW);
					operands<EN, PN, LN>(y[into][l], y0 + l * SB::ROW);
				}
				x0 += LINKS * SA::ROW;
				y0 += LINKS * SB::ROW;
			};
			auto link = [&](int with, int l) {
#pragma unroll
				for (int i = 0; i < EM; i++)
#pragma unroll
					for (int j = 0; j < EN; j++)
						c[i][j] = chain(x[with][l][i], y[with][l][j], c[i][j]);
			};
			fetch(0);
#pragma unroll UNROLL
			for (int n = depth / (2 * LINKS); n > 0; n--) {
				fetch(1);
#pragma unroll
				for (int l = 0; l < LINKS; l++)
					link(0, l);
				fetch(0); // unused after the last links
#pragma unroll
				for (int l = 0; l < LINKS; l++)
					link(1, l);
			}
			x0 -= LINKS * SA::ROW;
			y0 -= LINKS * SB::ROW;
#pragma unroll 1
			for (int n = depth % (2 * LINKS); n > 0; n--) {
				operands<EM, PM, LM>(x[0][0], x0);
				operands<EN, PN, LN>(y[0][0], y0);
				link(0, 0);
				x0 += SA::ROW;
				y0 += SB::ROW;
			}
		}
		waitCopies<0>();
		__syncthreads(); // memory is free for the next tile
#pragma unroll
		for (int i = 0; i < EM; i++) {
			const int r = row + mine + i / PM * (LM * PM) + i % PM;
			if (r >= p.m)
				break;
#pragma unroll
			for (int w = 0; w < EN / PN; w++) {
				const int s = col + mineAcross + w * (LN * PN);
				float *to = p.c.p + r * p.c.stride + s;
				const float *gate = p.gate.p + r * p.gate.stride + s;
				const float *v = c[i] + PN * w;
				if (PN == 4 && (p.wide & WIDE_C) && s + 4 <= p.n) {
					float4 bias = p.bias ? make_float4(p.bias[s], p.bias[s + 1], p.bias[s + 2], p.bias[s + 3]) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
					float4 out = make_float4(finished(p, v[0], bias.x), finished(p, v[1 % PN], bias.y), finished(p, v[2 % PN], bias.z), finished(p, v[3 % PN], bias.w));
					if (p.gate.p) {
						float4 g = *(const float4 *)gate;
						out = make_float4(g.x > 0.0f ? out.x : 0.0f, g.y > 0.0f ? out.y : 0.0f, g.z > 0.0f ? out.z : 0.0f, g.w > 0.0f ? out.w : 0.0f);
					}
					*(float4 *)to = out;
					continue;
				}
#pragma unroll
				for (int j = 0; j < PN; j++) {
					if (s + j >= p.n)
						break;
					float x = finished(p, v[j], p.bias ? p.bias[s + j] : 0.0f);
					to[j] = p.gate.p && !(gate[j] > 0.0f) ? 0.0f : x;
				}
			}
		}
	}
}

// The tiles, their threads and shared memory are those of kernels.productTiles. Gradients of weights
// occupy a multiprocessor with one or two blocks: their slices are long, so that waiting for
// copies and for other warps is rare, and their loops short. Small tiles read several links ahead.
KERNEL __launch_bounds__(256, 2) linear_128(Product p) { product<ALONG, ALONG, 128, 128, 8, 8, 16, 3, 1, 8, false>(p); }
KERNEL __launch_bounds__(128, 2) linear_128_64(Product p) { product<ALONG, ALONG, 128, 64, 8, 8, 32, 2, 1, 1, false>(p); }
KERNEL __launch_bounds__(256, 2) linear_64(Product p) { product<ALONG, ALONG, 64, 64, 4, 4, 56, 2, 2, 1, false>(p); }
KERNEL __launch_bounds__(128, 2) linear_64_32(Product p) { product<ALONG, ALONG, 64, 32, 4, 4, 48, 3, 2, 2, false>(p); }
KERNEL __launch_bounds__(128, 4) linear_32(Product p) { product<ALONG, ALONG, 32, 32, 4, 2, 64, 3, 4, 1, false>(p); }
KERNEL __launch_bounds__(128, 4) linear_16(Product p) { product<ALONG, ALONG, 16, 16, 2, 1, 128, 3, 8, 1, false>(p); }
KERNEL __launch_bounds__(256, 2) grad_input_128(Product p) { product<ALONG, ACROSS, 128, 128, 8, 8, 16, 3, 1, 8, false>(p); }
KERNEL __launch_bounds__(128, 2) grad_input_128_64(Product p) { product<ALONG, ACROSS, 128, 64, 8, 8, 32, 2, 1, 1, false>(p); }
KERNEL __launch_bounds__(256, 2) grad_input_64(Product p) { product<ALONG, ACROSS, 64, 64, 4, 4, 56, 2, 2, 1, false>(p); }
KERNEL __launch_bounds__(128, 2) grad_input_64_32(Product p) { product<ALONG, ACROSS, 64, 32, 4, 4, 48, 3, 2, 2, false>(p); }
KERNEL __launch_bounds__(128, 4) grad_input_32(Product p) { product<ALONG, ACROSS, 32, 32, 4, 2, 64, 3, 4, 1, false>(p); }
KERNEL __launch_bounds__(128, 4) grad_input_16(Product p) { product<ALONG, ACROSS, 16, 16, 2, 1, 128, 3, 8, 1, false>(p); }
KERNEL __launch_bounds__(256, 2) grad_weight_128(Product p) { product<ACROSS, ACROSS, 128, 128, 8, 8, 16, 3, 1, 8, true>(p); }
KERNEL __launch_bounds__(128, 2) grad_weight_128_64(Product p) { product<ACROSS, ACROSS, 128, 64, 8, 8, 32, 2, 1, 1, true>(p); }
KERNEL __launch_bounds__(256, 2) grad_weight_64(Product p) { product<ACROSS, ACROSS, 64, 64, 4, 4, 56, 2, 2, 1, true>(p); }
KERNEL __launch_bounds__(128, 2) grad_weight_64_32(Product p) { product<ACROSS, ACROSS, 64, 32, 4, 4, 48, 3, 2, 2, true>(p); }
KERNEL __launch_bounds__(128, 4) grad_weight_32(Product p) { product<ACROSS, ACROSS, 32, 32, 4, 2, 64, 3, 4, 1, true>(p); }
KERNEL __launch_bounds__(128, 4) grad_weight_16(Product p) { product<ACROSS, ACROSS, 16, 16, 2, 1, 128, 3, 8, 1, true>(p); }
