// Batch norm, dropout, the second-order term of a factorization machine, and vectors of numbers.

struct Norm {
	Mat y, x, dy;
	const float *mean, *inv, *gamma, *beta; // by column
	float *dgamma, *dbeta;                  // by column
	i64 rows;
	int cols, relu;
	float samples;
	int pad;
};

__device__ __forceinline__ float normalized(const Norm &p, i64 i, int j) {
	return (p.x.p[i * p.x.stride + j] - p.mean[j]) * p.inv[j];
}

// column_chains: dbeta = the column sums of x or, with mean, of (x - mean)^2. A thread takes a
// column.
KERNEL column_chains(Norm p) {
	for (i64 j = firstItem(); j < p.cols; j += itemStep()) {
		float sum = 0.0f;
#pragma unroll 8
		for (i64 i = 0; i < p.rows; i++) {
			float v = p.x.p[i * p.x.stride + j];
			if (p.mean) {
				v = v - p.mean[j];
				v = v * v;
			}
			sum = sum + v;
		}
		p.dbeta[j] = sum;
	}
}

// batch_norm: y = act(normalized x * gamma + beta).
KERNEL batch_norm(Norm p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; j < p.cols; j += blockDim.x) {
			float v = normalized(p, i, j) * p.gamma[j] + p.beta[j];
			p.y.p[i * p.y.stride + j] = p.relu && v < 0.0f ? 0.0f : v;
		}
}

// batch_norm_sums: dbeta and dgamma, the column sums of dy and of dy * normalized x.
KERNEL batch_norm_sums(Norm p) {
	for (i64 j = firstItem(); j < p.cols; j += itemStep()) {
		float dgamma = 0.0f, dbeta = 0.0f;
#pragma unroll 8
		for (i64 i = 0; i < p.rows; i++) {
			float dy = p.dy.p[i * p.dy.stride + j];
			dbeta = dbeta + dy;
			dgamma = dgamma + dy * normalized(p, i, (int)j);
		}
		p.dgamma[j] = dgamma;
		p.dbeta[j] = dbeta;
	}
}

// batch_norm_grad: y = the gradient of x.
KERNEL batch_norm_grad(Norm p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; j < p.cols; j += blockDim.x) {
			float a = p.dbeta[j] / p.samples, b = p.dgamma[j] / p.samples, c = p.gamma[j] * p.inv[j];
			p.y.p[i * p.y.stride + j] = ((p.dy.p[i * p.dy.stride + j] - a) - normalized(p, i, j) * b) * c;
		}
}

struct Vector {
	float *dst;
	const float *src;
	i64 n;
	float by, rate; // rate: eps in inverse_root
};

// average: dst = (1-rate)*dst + rate*(src/by), or src/by for a rate of 1.
KERNEL average(Vector p) {
	for (i64 i = firstItem(); i < p.n; i += itemStep()) {
		float x = p.src[i] / p.by;
		p.dst[i] = p.rate == 1.0f ? x : (1.0f - p.rate) * p.dst[i] + p.rate * x;
	}
}

// inverse_root: dst = 1/sqrt(src/by + eps).
KERNEL inverse_root(Vector p) {
	for (i64 i = firstItem(); i < p.n; i += itemStep())
		p.dst[i] = 1.0f / __fsqrt_rn(p.src[i] / p.by + p.rate);
}

// scale: dst = src * by.
KERNEL scale(Vector p) {
	for (i64 i = firstItem(); i < p.n; i += itemStep())
		p.dst[i] = p.src[i] * p.by;
}

struct Drop {
	Mat y;
	i64 rows;
	u64 seed;
	i64 step;
	u32 first, layer;
	float least, by;
	int cols, pad;
};

enum { DROPOUT = 5 }; // rng.Dropout

// dropout: y = y * by where the draw of (seed, step, sample, layer, unit) is at least least, else
// +0.0. A thread takes the four units of a draw.
KERNEL dropout(Drop p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; 4 * j < p.cols; j += blockDim.x) {
			uint4 u = philox((u32)p.seed, (u32)(p.seed >> 32), make_uint4((u32)p.step, p.first + (u32)i,
				(u32)(p.step >> 32) << 16 | DROPOUT << 8, (p.layer << 24) + (u32)j));
			const u32 draws[4] = {u.x, u.y, u.z, u.w};
			for (int k = 0; k < 4 && 4 * j + k < p.cols; k++) {
				float *y = p.y.p + i * p.y.stride + 4 * j + k;
				*y = symmetric(draws[k]) >= p.least ? *y * p.by : 0.0f;
			}
		}
}

struct Factors {
	Mat out, feats, dfeats; // forward: out of feats; backward: dfeats of out (its gradient) and feats
	i64 samples;
	int f, d;
};

// fm: a block takes a sample at a time, a thread a column of its vectors; one thread adds up.
KERNEL fm(Factors p) {
	float *terms = (float *)sharedMemory;
	for (i64 i = blockIdx.x; i < p.samples; i += gridDim.x) {
		const float *x = p.feats.p + i * p.feats.stride;
		for (int c = threadIdx.x; c < p.d; c += blockDim.x) {
			float sum = 0.0f, squares = 0.0f;
			for (int v = 0; v < p.f; v++) {
				float a = x[v * p.d + c];
				sum = sum + a;
				squares = squares + a * a;
			}
			terms[c] = sum * sum - squares;
		}
		__syncthreads();
		if (threadIdx.x == 0) {
			float total = 0.0f;
			for (int c = 0; c < p.d; c++)
				total = total + terms[c];
			p.out.p[i * p.out.stride] = 0.5f * total;
		}
		__syncthreads(); // terms are free again
	}
}

// fm_grad: dfeats += out * (the sum of the vectors - the vector).
KERNEL fm_grad(Factors p) {
	for (i64 i = firstRow(); i < p.samples; i += rowStep()) {
		const float *x = p.feats.p + i * p.feats.stride;
		float *to = p.dfeats.p + i * p.dfeats.stride;
		const float g = p.out.p[i * p.out.stride];
		for (int c = threadIdx.x; c < p.d; c += blockDim.x) {
			float sum = 0.0f;
			for (int v = 0; v < p.f; v++)
				sum = sum + x[v * p.d + c];
			for (int v = 0; v < p.f; v++)
				to[v * p.d + c] = to[v * p.d + c] + g * (sum - x[v * p.d + c]);
		}
	}
}

struct Numbers {
	Mat out, x;
	float *v; // (n, d)
	i64 rows;
	int n, d;
};

// scale_vectors: out = x times the vectors v.
KERNEL scale_vectors(Numbers p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int k = threadIdx.x; k < p.n * p.d; k += blockDim.x)
			p.out.p[i * p.out.stride + k] = p.v[k] * p.x.p[i * p.x.stride + k / p.d];
}

// scale_vectors_grad: v = the sums of out (its gradient) times x. A thread takes an element of v.
KERNEL scale_vectors_grad(Numbers p) {
	for (i64 k = firstItem(); k < (i64)p.n * p.d; k += itemStep()) {
		float sum = 0.0f;
#pragma unroll 8
		for (i64 i = 0; i < p.rows; i++)
			sum = sum + p.out.p[i * p.out.stride + k] * p.x.p[i * p.x.stride + k / p.d];
		p.v[k] = sum;
	}
}

struct Extended {
	Mat dst, vectors, tail;
	i64 rows;
	int f, d, e, pad;
};

// extend_vectors: each of the f vectors of d floats of a row, followed by the row's e floats of tail.
KERNEL extend_vectors(Extended p) {
	int w = p.d + p.e;
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int k = threadIdx.x; k < p.f * w; k += blockDim.x) {
			int v = k / w, c = k % w;
			p.dst.p[i * p.dst.stride + k] = c < p.d ? p.vectors.p[i * p.vectors.stride + v * p.d + c] : p.tail.p[i * p.tail.stride + c - p.d];
		}
}
