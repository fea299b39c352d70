// Products of pieces (kernels.blas = "exact-tc"): package kernels' doc defines them.
//
// A pass over each operand writes the integers of its rows in three digits of 8 bits with signs,
// and their scales. A third multiplies each digit of A with each of B on tensor cores: the sums
// of 1,024 products fit 32 bits, so that they are exact in any order. The digits of 8 rows and
// 32 links are consecutive: digit 0, 1, 2, each as two blocks of 8 rows of 16 bytes, so that a
// block is one matrix of ldmatrix and its reads use all banks once. So k lies along memory for
// all operands, and one kernel computes all three products. k is padded with zeros to STEP.
//
// Cards before sm_80, cards with too little shared memory and the stand-in of tests multiply
// integers with the plain kernel. It gives the same bits.

enum { PIECE = 1024, STEP = 64, PANEL = 768 * (STEP / 32) }; // PANEL: bytes of 8 rows of a step

struct Digits {
	Mat x;            // ALONG: (rows, k); ACROSS: (k, rows)
	signed char *to;  // of panels of 8 rows
	float *scales;    // (pieces, panels * 8)
	int rows, k;
	int wide, pad;    // wide: rows of x can be read four floats at a time
};

__device__ __forceinline__ int pieces(int k) { return (k + PIECE - 1) / PIECE; }
__device__ __forceinline__ int steps(int k) { return (k + STEP - 1) / STEP; }

// Scale is the power of two of a piece of a row whose greatest magnitude has the bits most: q is
// x * up * high, rounded. Its reciprocal is down.
struct Scale {
	float up, high, down;
};

__device__ __forceinline__ float power(int e) { return __uint_as_float((u32)(e + 127) << 23); }

__device__ __forceinline__ Scale scaleOf(u32 most) {
	Scale s;
	const int e = (int)((most + 0x20000u) >> 23), up = 149 - e, half = up >> 1;
	s.up = power(half);
	s.high = power(up - half);
	s.down = most >= 0x7f800000u ? __uint_as_float(0x7fc00000u) : __uint_as_float(e < 23 ? 1u << e : (u32)(e - 22) << 23);
	return s;
}

// digitsOf returns the three digits of q in its low bytes.
__device__ __forceinline__ u32 digitsOf(float x, const Scale &s) {
	return ((u32)__float2int_rn(x * s.up * s.high) + 0x808080u) ^ 0x808080u;
}

__device__ __forceinline__ u32 magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// storeDigits writes 16 links of a row.
__device__ __forceinline__ void storeDigits(signed char *to, const float *x, const Scale &s) {
	u32 d[3][4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		const u32 a = digitsOf(x[4 * i], s), b = digitsOf(x[4 * i + 1], s), c = digitsOf(x[4 * i + 2], s), e = digitsOf(x[4 * i + 3], s);
		const u32 ab = __byte_perm(a, b, 0x5140), ce = __byte_perm(c, e, 0x5140);
		d[0][i] = __byte_perm(ab, ce, 0x5410);
		d[1][i] = __byte_perm(ab, ce, 0x7632);
		d[2][i] = __byte_perm(__byte_perm(a, b, 0x0062), __byte_perm(c, e, 0x0062), 0x5410);
	}
#pragma unroll
	for (int i = 0; i < 3; i++)
		*(uint4 *)(to + 256 * i) = make_uint4(d[i][0], d[i][1], d[i][2], d[i][3]);
}

// placeOf returns the place of digit 0 of 16 links of a row.
__device__ __forceinline__ i64 placeOf(int row, int chunk, int k) {
	return ((i64)(row >> 3) * (steps(k) * (STEP / 32)) + (chunk >> 1)) * 768 + (chunk & 1) * 128 + (row & 7) * 16;
}

// digits_along: a block takes a piece of 8 rows, a thread two times 16 links.
KERNEL __launch_bounds__(256) digits_along(Digits p) {
	__shared__ uint4 most[8][9]; // of 32 threads for each row; the padding avoids conflicts of banks
	const int t = threadIdx.x, r = t >> 2 & 7, part = t >> 5 << 2 | (t & 3), panels = (p.rows + 7) >> 3;
	const i64 blocks = (i64)panels * pieces(p.k);
	for (i64 block = blockIdx.x; block < blocks; block += gridDim.x) {
		const int piece = (int)(block / panels), row = (int)(block % panels) * 8 + r;
		const int last = steps(p.k) * (STEP / 16) - piece * (PIECE / 16); // chunks left
		float x[2][16];
		u32 m = 0;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const int chunk = 32 * i + part, at = piece * PIECE + chunk * 16;
			const float *from = p.x.p + row * p.x.stride + at;
			if (row < p.rows && p.wide && at + 16 <= p.k) {
#pragma unroll
				for (int j = 0; j < 4; j++) {
					const float4 v = *(const float4 *)(from + 4 * j);
					x[i][4 * j] = v.x;
					x[i][4 * j + 1] = v.y;
					x[i][4 * j + 2] = v.z;
					x[i][4 * j + 3] = v.w;
				}
			} else
#pragma unroll
				for (int j = 0; j < 16; j++)
					x[i][j] = row < p.rows && at + j < p.k ? from[j] : 0.0f;
#pragma unroll
			for (int j = 0; j < 16; j++)
				m = magnitude(x[i][j]) > m ? magnitude(x[i][j]) : m;
		}
		((u32 *)most[r])[part] = m;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < 8; j++) {
			const uint4 v = most[r][j];
			m = v.x > m ? v.x : m;
			m = v.y > m ? v.y : m;
			m = v.z > m ? v.z : m;
			m = v.w > m ? v.w : m;
		}
		__syncthreads();
		const Scale s = scaleOf(m);
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (32 * i + part < last)
				storeDigits(p.to + placeOf(row, piece * (PIECE / 16) + 32 * i + part, p.k), x[i], s);
		if (part == 0)
			p.scales[(i64)piece * panels * 8 + row] = s.down;
	}
}

// digits_across: a block takes a piece of 16 rows, a thread four times 16 links.
KERNEL __launch_bounds__(256, 2) digits_across(Digits p) {
	__shared__ u32 most[16][17];
	const int t = threadIdx.x, r = t & 15, part = t >> 4, panels = (p.rows + 7) >> 3, pairs = (panels + 1) >> 1;
	const i64 blocks = (i64)pairs * pieces(p.k);
	for (i64 block = blockIdx.x; block < blocks; block += gridDim.x) {
		const int piece = (int)(block / pairs), row = (int)(block % pairs) * 16 + r;
		const int last = steps(p.k) * (STEP / 16) - piece * (PIECE / 16);
		float x[4][16];
		u32 m = 0;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int at = piece * PIECE + (part * 4 + i) * 16;
			const float *from = p.x.p + at * p.x.stride + row;
			if (row < p.rows && at + 16 <= p.k)
#pragma unroll
				for (int j = 0; j < 16; j++)
					x[i][j] = from[j * p.x.stride];
			else
#pragma unroll
				for (int j = 0; j < 16; j++)
					x[i][j] = row < p.rows && at + j < p.k ? from[j * p.x.stride] : 0.0f;
		}
#pragma unroll
		for (int i = 0; i < 64; i++)
			m = magnitude(x[i >> 4][i & 15]) > m ? magnitude(x[i >> 4][i & 15]) : m;
		most[part][r] = m;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < 16; j++)
			m = most[j][r] > m ? most[j][r] : m;
		__syncthreads();
		const Scale s = scaleOf(m);
		if (row >= panels * 8)
			continue;
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (part * 4 + i < last)
				storeDigits(p.to + placeOf(row, piece * (PIECE / 16) + part * 4 + i, p.k), x[i], s);
		if (part == 0)
			p.scales[(i64)piece * panels * 8 + row] = s.down;
	}
}

struct ExactProduct {
	Mat c;
	const signed char *a, *b;  // digits
	const float *scaleA, *scaleB;
	const float *bias; // of C's columns, or 0
	Mat gate;          // of C's shape, or 0
	float *partial;    // of each piece, (pieces, m, n), or 0: pieces are added in C
	int m, n, k, relu;
	int more, pad;     // more: the pieces are added to those in C
};

// ended returns element (r, q) of C for the sum of its pieces: with bias, activation and gate.
__device__ __forceinline__ float ended(const ExactProduct &p, float v, int r, int q) {
	if (p.bias)
		v = v + p.bias[q];
	if (p.relu && v < 0.0f)
		v = 0.0f;
	return p.gate.p && !(p.gate.p[r * p.gate.stride + q] > 0.0f) ? 0.0f : v;
}

// exactValue is the value of a piece: its sum, times the reciprocals of both scales.
__device__ __forceinline__ float exactValue(i64 sum, float a, float b) { return (float)sum * (a <= b ? a : b) * (a <= b ? b : a); }

// integerOf returns the integer whose digits are 256 bytes apart.
__device__ __forceinline__ int integerOf(const signed char *d) { return d[0] + d[256] * 256 + d[512] * 65536; }

// exactPlain computes each element by one thread.
__device__ __forceinline__ void exactPlain(const ExactProduct &p) {
	const int all = pieces(p.k), chunks = steps(p.k) * (STEP / 16), panelsA = (p.m + 7) >> 3, panelsB = (p.n + 7) >> 3;
	for (i64 at = firstItem(); at < (i64)p.m * p.n; at += itemStep()) {
		const int r = (int)(at / p.n), q = (int)(at % p.n);
		float *to = p.c.p + r * p.c.stride + q, v = 0.0f;
		for (int piece = 0; piece < all; piece++) {
			i64 sum = 0;
			for (int chunk = piece * (PIECE / 16); chunk < (piece + 1) * (PIECE / 16) && chunk < chunks; chunk++) {
				const signed char *a = p.a + placeOf(r, chunk, p.k), *b = p.b + placeOf(q, chunk, p.k);
				for (int i = 0; i < 16; i++)
					sum += (i64)integerOf(a + i) * integerOf(b + i);
			}
			const float x = exactValue(sum, p.scaleA[(i64)piece * panelsA * 8 + r], p.scaleB[(i64)piece * panelsB * 8 + q]);
			if (p.partial)
				p.partial[piece * (i64)p.m * p.n + at] = x;
			else
				v = piece == 0 ? p.more ? *to + x : x : v + x;
		}
		if (!p.partial)
			*to = ended(p, v, r, q);
	}
}

KERNEL __launch_bounds__(256) exact_plain(ExactProduct p) { exactPlain(p); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

__device__ __forceinline__ u32 sharedAt(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void copyAsync(u32 to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void matrices4(u32 *x, u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
}
__device__ __forceinline__ void matrices2(u32 *x, u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "r"(at));
}
__device__ __forceinline__ void multiply(int *c, const u32 *a, const u32 *b) {
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// exactProduct: warps compute WM x WN of a tile of BM x BN. The products of digits d and e add up
// in sum d + e. STAGES steps are in shared memory: one in use, the others being copied there.
template <int BM, int BN, int WM, int WN, int STAGES> __device__ __forceinline__ void exactProduct(const ExactProduct &p) {
	const int WARPS = (BM / WM) * (BN / WN), PANELS = (BM + BN) / 8, SUMS = 5, MI = WM / 16, NI = WN / 8;
	const int STAGE = PANELS * PANEL;
	const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
	const u32 memory = sharedAt(sharedMemory);
	const int across = (p.n + BN - 1) / BN, down = (p.m + BM - 1) / BM, all = pieces(p.k);
	const int parts = p.partial ? all : 1;
	const i64 items = (i64)across * down * parts;
	const int panelsA = (p.m + 7) >> 3, panelsB = (p.n + 7) >> 3, total = steps(p.k);
	const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
	// A's matrices: panel, half of 32 links; B's: consecutive.
	const u32 atA = (wm / 8 + (lane >> 3 & 1)) * PANEL + (lane >> 4) * 128 + (lane & 7) * 16;
	const u32 atB = (BM / 8 + wn / 8) * PANEL + lane * 16;
	for (i64 item = blockIdx.x; item < items; item += gridDim.x) {
		const int part = (int)(item / ((i64)across * down)), tile = (int)(item % ((i64)across * down));
		const int row = tile / across * BM, col = tile % across * BN;
		const int begin = p.partial ? part * (PIECE / STEP) : 0;
		const int end = p.partial && begin + PIECE / STEP < total ? begin + PIECE / STEP : total;
		auto load = [&](int step, int stage) {
#pragma unroll
			for (int i = 0; i < (PANELS + WARPS - 1) / WARPS; i++) {
				const int panel = i * WARPS + warp;
				if (PANELS % WARPS != 0 && panel >= PANELS)
					break;
				const bool isA = panel < BM / 8;
				int from = isA ? row / 8 + panel : col / 8 + panel - BM / 8;
				const int limit = (isA ? panelsA : panelsB) - 1;
				from = from < limit ? from : limit;
				const signed char *source = (isA ? p.a : p.b) + ((i64)from * total + step) * PANEL + lane * 16;
				const u32 to = memory + stage * STAGE + panel * PANEL + lane * 16;
#pragma unroll
				for (int j = 0; j < PANEL / 512; j++)
					copyAsync(to + 512 * j, source + 512 * j);
			}
		};
		int c[MI][NI][SUMS][4];
#pragma unroll
		for (int i = 0; i < MI * NI * SUMS * 4; i++)
			(&c[0][0][0][0])[i] = 0;
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++) {
			if (begin + s < end)
				load(begin + s, s);
			asm volatile("cp.async.commit_group;");
		}
		int stage = 0;
		for (int step = begin; step < end; step++) {
			asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
			__syncthreads();
			if (step + STAGES - 1 < end)
				load(step + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
			asm volatile("cp.async.commit_group;");
			const u32 from = memory + stage * STAGE;
#pragma unroll
			for (int h = 0; h < STEP / 32; h++) {
				u32 a[MI][3][4], b[2][6];
#pragma unroll
				for (int d = 0; d < 3; d++)
#pragma unroll
					for (int i = 0; i < MI; i++)
						matrices4(a[i][d], from + atA + 2 * i * PANEL + h * 768 + d * 256);
				matrices4(b[0], from + atB + h * 768);
				matrices2(b[0] + 4, from + atB + h * 768 + 512);
#pragma unroll
				for (int j = 0; j < NI; j++) {
					if (j + 1 < NI) {
						matrices4(b[(j + 1) & 1], from + atB + (j + 1) * PANEL + h * 768);
						matrices2(b[(j + 1) & 1] + 4, from + atB + (j + 1) * PANEL + h * 768 + 512);
					}
#pragma unroll
					for (int e = 0; e < 3; e++)
#pragma unroll
						for (int d = 0; d < 3; d++)
#pragma unroll
							for (int i = 0; i < MI; i++)
								multiply(c[i][j][d + e], a[i][d], b[j & 1] + 2 * e);
				}
			}
			stage = stage + 1 == STAGES ? 0 : stage + 1;
			const bool ends = step + 1 == end;
			if (!ends && (step + 1) % (PIECE / STEP) != 0)
				continue;
			// The piece is complete.
			const int piece = step / (PIECE / STEP);
			const float *scaleA = p.scaleA + (i64)piece * panelsA * 8, *scaleB = p.scaleB + (i64)piece * panelsB * 8;
			float *to = p.partial ? p.partial + (i64)piece * p.m * p.n : p.c.p;
			const i64 stride = p.partial ? p.n : p.c.stride;
			const bool first = p.partial || piece == 0 && !p.more, finish = ends && !p.partial;
#pragma unroll
			for (int i = 0; i < 2 * MI; i++) {
				const int r = row + wm + 8 * i + (lane >> 2);
				const bool inside = r < p.m;
				const float sa = inside ? scaleA[r] : 0.0f;
				float *y = to + r * stride;
#pragma unroll
				for (int j = 0; j < 2 * NI; j++) {
					const int q = col + wn + 8 * (j >> 1) + 2 * (lane & 3) + (j & 1);
					int *sums = &c[i >> 1][j >> 1][0][2 * (i & 1) + (j & 1)];
					i64 s = (i64)sums[0];
#pragma unroll
					for (int u = 1; u < SUMS; u++)
						s += (i64)sums[4 * u] << 8 * u;
#pragma unroll
					for (int u = 0; u < SUMS; u++)
						sums[4 * u] = 0;
					if (!inside || q >= p.n)
						continue;
					float v = exactValue(s, sa, scaleB[q]);
					if (!first)
						v = y[q] + v;
					y[q] = finish ? ended(p, v, r, q) : v;
				}
			}
		}
		asm volatile("cp.async.wait_group 0;");
		__syncthreads();
	}
}

#else
template <int BM, int BN, int WM, int WN, int STAGES> __device__ __forceinline__ void exactProduct(const ExactProduct &p) { exactPlain(p); }
#endif

// The tile, its threads and its shared memory are those of kernels.exactTiles. Tiles of 64 x 128
// were as fast, tiles of 96 x 96 slower.
KERNEL __launch_bounds__(256, 1) exact_product(ExactProduct p) { exactProduct<128, 64, 32, 32, 4>(p); }
KERNEL __launch_bounds__(256, 1) exact_product_2(ExactProduct p) { exactProduct<128, 64, 32, 32, 2>(p); }

// exact_sum adds up the pieces of a product, where each was computed by a block of its own.
KERNEL __launch_bounds__(256) exact_sum(ExactProduct p) {
	const i64 all = (i64)p.m * p.n;
	const int count = pieces(p.k);
	for (i64 at = firstItem(); at < all; at += itemStep()) {
		const int r = (int)(at / p.n), q = (int)(at % p.n);
		float *to = p.c.p + r * p.c.stride + q, v = p.partial[at];
		if (p.more)
			v = *to + v;
		for (int i = 1; i < count; i++)
			v = v + p.partial[i * all + at];
		*to = ended(p, v, r, q);
	}
}
