// DLRM's pairwise dots. A block takes a group of samples at a time.

struct Interaction {
	Mat out, feats, dfeats; // forward: out of feats; backward: dfeats of out (its gradient) and feats
	i64 samples;
	int f, d;
	int row;   // floats of a vector in shared memory
	int lead;  // floats of out before the dots: d, for vector 0, or none
	int group; // samples of a block at a time
	int each;  // floats of a sample in shared memory
	int wide;  // vectors are moved four floats at a time
	int pad;
	Divisor by; // units of a vector: of four floats if wide, else of one
};

// pairOf finds i and j < i of pair q = i(i-1)/2 + j.
__device__ __forceinline__ void pairOf(int q, int &i, int &j) {
	i = (int)((1.0f + __fsqrt_rn(1.0f + 8.0f * (float)q)) * 0.5f);
	while (i * (i - 1) / 2 > q)
		i--;
	while ((i + 1) * i / 2 <= q)
		i++;
	j = q - i * (i - 1) / 2;
}

__device__ __forceinline__ float part(float4 v, int n) { return n == 0 ? v.x : n == 1 ? v.y : n == 2 ? v.z : v.w; }

__device__ __forceinline__ float4 chain4(float a, float4 b, float4 sum) {
	return make_float4(chain(a, b.x, sum.x), chain(a, b.y, sum.y), chain(a, b.z, sum.z), chain(a, b.w, sum.w));
}

// copyFeatures starts the copies of a sample's vectors to shared memory.
__device__ __forceinline__ void copyFeatures(const Interaction &p, i64 sample, float *x) {
	const float *from = p.feats.p + sample * p.feats.stride;
	const int lanes = p.wide ? 4 : 1, units = p.d / lanes;
	for (int q = threadIdx.x; q < p.f * units; q += blockDim.x) {
		int v = units == 1 ? q : (int)quotient((u32)q, p.by);
		float *to = x + v * p.row + (q - v * units) * lanes;
		if (p.wide)
			copyFloats(to, from + 4 * q, 4);
		else
			copyFloat(to, from + q);
	}
}

// TileOfDots is the dots of vectors i, i + step, i + 2*step, ... and j, j + step, ...: T of each.
// Vectors next to each other are in different banks, since p.row/4 is odd.
template <int T> struct TileOfDots {
	int i, j, step;
	float sum[T][T];

	// compute: a missing vector is replaced by the last one, and its dots are not stored.
	__device__ __forceinline__ void compute(const Interaction &p, const float *x) {
		const float *a[T], *b[T];
#pragma unroll
		for (int r = 0; r < T; r++) {
			a[r] = x + (i + r * step < p.f ? i + r * step : p.f - 1) * p.row;
			b[r] = x + (j + r * step < p.f ? j + r * step : p.f - 1) * p.row;
#pragma unroll
			for (int s = 0; s < T; s++)
				sum[r][s] = 0.0f;
		}
		int k = 0;
		for (; k + 4 <= p.d; k += 4) {
			float4 va[T], vb[T];
#pragma unroll
			for (int r = 0; r < T; r++) {
				va[r] = *(const float4 *)(a[r] + k);
				vb[r] = *(const float4 *)(b[r] + k);
			}
#pragma unroll
			for (int n = 0; n < 4; n++)
#pragma unroll
				for (int r = 0; r < T; r++)
#pragma unroll
					for (int s = 0; s < T; s++)
						sum[r][s] = chain(part(va[r], n), part(vb[s], n), sum[r][s]);
		}
		for (; k < p.d; k++)
#pragma unroll
			for (int r = 0; r < T; r++)
#pragma unroll
				for (int s = 0; s < T; s++)
					sum[r][s] = chain(a[r][k], b[s][k], sum[r][s]);
	}

	__device__ __forceinline__ void store(const Interaction &p, float *dots) const {
#pragma unroll
		for (int r = 0; r < T; r++)
#pragma unroll
			for (int s = 0; s < T; s++) {
				int m = i + r * step, n = j + s * step;
				if (m < p.f && n < p.f && (i > j || r > s))
					dots[m > n ? m * (m - 1) / 2 + n : n * (n - 1) / 2 + m] = sum[r][s];
			}
	}
};

// interact computes out of feats. A thread takes a tile of T by T dots, or some if a sample has
// more tiles than the block has threads. The dots go by way of shared memory, behind the vectors.
template <int T> __device__ __forceinline__ void interact(const Interaction &p) {
	float *x = (float *)sharedMemory;
	const int dots = p.f * (p.f - 1) / 2, step = (p.f + T - 1) / T, tiles = step * (step + 1) / 2;
	const int mine = p.group == 1 ? 0 : threadIdx.x / tiles; // the thread's sample
	const i64 ahead = (i64)gridDim.x * p.group;
	i64 sample = (i64)blockIdx.x * p.group;
	for (int g = 0; g < p.group && sample + g < p.samples; g++)
		copyFeatures(p, sample + g, x + g * p.each);
	for (; sample < p.samples; sample += ahead) {
		commitCopies();
		waitCopies<0>();
		__syncthreads();
		for (int g = 0; g < p.group && sample + g < p.samples; g++)
			for (int k = threadIdx.x; k < p.lead; k += blockDim.x)
				p.out.p[(sample + g) * p.out.stride + k] = x[g * p.each + k];
		if (mine < p.group && sample + mine < p.samples) {
			float *from = x + mine * p.each;
			for (int q = threadIdx.x - mine * tiles; q < tiles; q += blockDim.x) {
				TileOfDots<T> tile;
				pairOf(q, tile.i, tile.j); // with the diagonal's tiles: pairs of step + 1
				tile.i--;
				tile.step = step;
				tile.compute(p, from);
				tile.store(p, from + p.f * p.row);
			}
		}
		__syncthreads(); // the vectors' place is free, and the dots are complete
		for (int g = 0; g < p.group && sample + ahead + g < p.samples; g++)
			copyFeatures(p, sample + ahead + g, x + g * p.each);
		for (int g = 0; g < p.group && sample + g < p.samples; g++)
			for (int k = threadIdx.x; k < dots; k += blockDim.x)
				p.out.p[(sample + g) * p.out.stride + p.lead + k] = x[g * p.each + p.f * p.row + k];
	}
}

// dot_interaction: out is vector 0, if p.lead is d, then the dots of vectors i and j < i, each one
// chain over d.
KERNEL dot_interaction(Interaction p) { interact<4>(p); }

// dot_interaction_grad: dfeats vector i = the chain of s(i, j) * feats vector j over all j
// ascending, s symmetric with +0.0 on its diagonal; for i = 0 plus out's first p.lead floats.
KERNEL dot_interaction_grad(Interaction p) {
	float *x = (float *)sharedMemory, *s = x + p.f * p.row;
	const int groups = (p.d + 3) / 4; // of columns
	for (i64 sample = blockIdx.x; sample < p.samples; sample += gridDim.x) {
		copyFeatures(p, sample, x);
		const float *dout = p.out.p + sample * p.out.stride;
		for (int q = threadIdx.x; q < p.f * p.f; q += blockDim.x) {
			int i = q / p.f, j = q - i * p.f;
			s[q] = i == j ? 0.0f : i > j ? dout[p.lead + i * (i - 1) / 2 + j] : dout[p.lead + j * (j - 1) / 2 + i];
		}
		commitCopies();
		waitCopies<0>();
		__syncthreads();
		float *to = p.dfeats.p + sample * p.dfeats.stride;
		for (int q = threadIdx.x; q < p.f * groups; q += blockDim.x) {
			int i = q / groups, c = q - i * groups; // columns c, c + groups, ...: neighbours are other threads'
			float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
			for (int j = 0; j < p.f; j++) {
				float w = s[i * p.f + j];
#pragma unroll
				for (int k = 0; k < 4; k++)
					if (c + k * groups < p.d)
						sum[k] = chain(w, x[j * p.row + c + k * groups], sum[k]);
			}
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (c + k * groups < p.d)
					to[i * p.d + c + k * groups] = i == 0 && p.lead > 0 ? sum[k] + dout[c + k * groups] : sum[k];
		}
		__syncthreads();
	}
}

// copyGradient starts the copy of a sample's gradient to shared memory.
__device__ __forceinline__ void copyGradient(const Interaction &p, i64 sample, float *to, int floats) {
	const float *from = p.out.p + sample * p.out.stride;
	for (int k = threadIdx.x; k < floats; k += blockDim.x)
		copyFloat(to + k, from + k);
}

// interactGrad is dot_interaction_grad for up to F vectors of whole groups of four floats. A block
// is a warp. A thread keeps its four columns of all vectors in registers, so that only s is in
// shared memory, in rows of F floats, then out's first floats, then the next sample's out. The
// links after the last vector's multiply -0.0 by +0.0, which changes no sum.
template <int F> __device__ __forceinline__ void interactGrad(const Interaction &p) {
	const int quads = p.d / 4, dots = p.f * (p.f - 1) / 2, warp = 32, lead = p.f * F, next = lead + p.lead;
	u32 *places = (u32 *)sharedMemory; // of each dot, its two in s
	float *all = (float *)(places + (dots + 3) / 4 * 4);
	for (int k = threadIdx.x; k < dots; k += warp) {
		int i, j;
		pairOf(k, i, j);
		places[k] = (u32)(i * F + j) | (u32)(j * F + i) << 16;
	}
	const i64 ahead = (i64)gridDim.x * p.group;
	i64 sample = (i64)blockIdx.x * p.group;
	for (int g = 0; g < p.group; g++) {
		for (int k = threadIdx.x; k < p.f * F; k += warp)
			all[g * p.each + k] = k % F < p.f ? 0.0f : -0.0f; // the diagonal's and those after a row
		if (sample + g < p.samples)
			copyGradient(p, sample + g, all + g * p.each + next, p.lead + dots);
	}
	const int mine = quads < warp ? threadIdx.x / quads : 0; // the thread's sample
	const float *s = all + mine * p.each;
	for (; sample < p.samples; sample += ahead) {
		const bool has = mine < p.group && sample + mine < p.samples;
		const float4 *from = (const float4 *)(p.feats.p + (sample + mine) * p.feats.stride);
		float4 *to = (float4 *)(p.dfeats.p + (sample + mine) * p.dfeats.stride);
		for (int first = 0; first < quads; first += warp) {
			const int c = first + threadIdx.x - mine * quads;
			float4 x[F];
#pragma unroll
			for (int v = 0; v < F; v++)
				x[v] = has && c < quads && v < p.f ? from[v * quads + c] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
			if (first == 0) {
				commitCopies();
				waitCopies<0>();
				__syncthreads(); // s is free
				for (int g = 0; g < p.group && sample + g < p.samples; g++) {
					float *of = all + g * p.each, *dout = of + next;
					for (int k = threadIdx.x; k < p.lead; k += warp)
						of[lead + k] = dout[k];
					for (int k = threadIdx.x; k < dots; k += warp) {
						of[places[k] & 0xffff] = dout[p.lead + k];
						of[places[k] >> 16] = dout[p.lead + k];
					}
				}
				__syncthreads();
				for (int g = 0; g < p.group && sample + ahead + g < p.samples; g++)
					copyGradient(p, sample + ahead + g, all + g * p.each + next, p.lead + dots);
			}
			if (!has || c >= quads)
				continue;
			for (int i = 0; i < p.f; i++) {
				const float4 *w = (const float4 *)(s + i * F);
				float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
				for (int j = 0; j < F; j += 4) {
					float4 by = w[j / 4];
					sum = chain4(by.x, x[j], sum);
					sum = chain4(by.y, x[j + 1], sum);
					sum = chain4(by.z, x[j + 2], sum);
					sum = chain4(by.w, x[j + 3], sum);
				}
				if (i == 0 && p.lead > 0)
					sum = add4(sum, *(const float4 *)(s + lead + 4 * c));
				to[i * quads + c] = sum;
			}
		}
	}
}

KERNEL dot_interaction_grad_28(Interaction p) { interactGrad<28>(p); }
