// DLRM's pairwise dots. A block takes a sample at a time. Its f vectors of d floats are in
// shared memory, each row at another bank offset.

struct Interaction {
	Mat out, feats, dfeats; // forward: out of feats; backward: dfeats of out (its gradient) and feats
	i64 samples;
	int f, d;
	int row;  // floats of a vector in shared memory
	int lead; // floats of out before the dots: d, for vector 0, or none
};

__device__ __forceinline__ void loadFeatures(const Interaction &p, i64 sample, float *x) {
	const float *from = p.feats.p + sample * p.feats.stride;
	for (int i = threadIdx.x; i < p.f * p.d; i += blockDim.x) {
		int v = i / p.d;
		x[v * p.row + (i - v * p.d)] = from[i];
	}
}

// pairOf finds i and j < i of pair q = i(i-1)/2 + j.
__device__ __forceinline__ void pairOf(int q, int &i, int &j) {
	i = (int)((1.0f + __fsqrt_rn(1.0f + 8.0f * (float)q)) * 0.5f);
	while (i * (i - 1) / 2 > q)
		i--;
	while ((i + 1) * i / 2 <= q)
		i++;
	j = q - i * (i - 1) / 2;
}

// dot_interaction: out is vector 0, if p.lead is d, then the dots of vectors i and j < i, each one
// chain over d. A thread takes two by two vectors: four chains for four loads.
KERNEL dot_interaction(Interaction p) {
	float *x = (float *)sharedMemory;
	const int half = (p.f + 1) / 2, tiles = half * (half + 1) / 2;
	for (i64 sample = blockIdx.x; sample < p.samples; sample += gridDim.x) {
		loadFeatures(p, sample, x);
		__syncthreads();
		float *out = p.out.p + sample * p.out.stride;
		for (int k = threadIdx.x; k < p.lead; k += blockDim.x)
			out[k] = x[k];
		for (int q = threadIdx.x; q < tiles; q += blockDim.x) {
			int i, j; // of tiles, the diagonal's too: pairs of half + 1
			pairOf(q, i, j);
			i = 2 * (i - 1);
			j = 2 * j;
			// A missing vector is replaced by the one before it, and its dots are not stored.
			const float *a = x + i * p.row, *b = x + (i + 1 < p.f ? i + 1 : i) * p.row;
			const float *c = x + j * p.row, *e = x + (j + 1 < p.f ? j + 1 : j) * p.row;
			float ac = 0.0f, ae = 0.0f, bc = 0.0f, be = 0.0f;
			for (int k = 0; k < p.d; k++) {
				float va = a[k], vb = b[k], vc = c[k], ve = e[k];
				ac = chain(va, vc, ac);
				ae = chain(va, ve, ae);
				bc = chain(vb, vc, bc);
				be = chain(vb, ve, be);
			}
			float *to = out + p.lead;
			if (i > j) {
				to[i * (i - 1) / 2 + j] = ac;
				if (j + 1 < i)
					to[i * (i - 1) / 2 + j + 1] = ae;
			}
			if (i + 1 < p.f) {
				to[(i + 1) * i / 2 + j] = bc;
				if (j + 1 < i + 1)
					to[(i + 1) * i / 2 + j + 1] = be;
			}
		}
		__syncthreads(); // x is free again
	}
}

// dot_interaction_grad: dfeats vector i = the chain of s(i, j) * feats vector j over all j
// ascending, s symmetric with +0.0 on its diagonal; for i = 0 plus out's first p.lead floats.
KERNEL dot_interaction_grad(Interaction p) {
	float *x = (float *)sharedMemory, *s = x + p.f * p.row;
	const int groups = (p.d + 3) / 4; // of columns
	for (i64 sample = blockIdx.x; sample < p.samples; sample += gridDim.x) {
		loadFeatures(p, sample, x);
		const float *dout = p.out.p + sample * p.out.stride;
		for (int q = threadIdx.x; q < p.f * p.f; q += blockDim.x) {
			int i = q / p.f, j = q - i * p.f;
			s[q] = i == j ? 0.0f : i > j ? dout[p.lead + i * (i - 1) / 2 + j] : dout[p.lead + j * (j - 1) / 2 + i];
		}
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
