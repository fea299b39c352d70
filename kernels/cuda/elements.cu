// Element by element: sums over ranks, columns, gates, losses.

// The loops over V take a float or, if a launch sets wide, four floats at a time.

__device__ __forceinline__ float added(float a, float b) { return a + b; }
__device__ __forceinline__ float4 added(float4 a, float4 b) { return add4(a, b); }
__device__ __forceinline__ float product(float a, float b) { return a * b; }
__device__ __forceinline__ float4 product(float4 a, float4 b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
__device__ __forceinline__ float4 product(float4 a, float b) { return make_float4(a.x * b, a.y * b, a.z * b, a.w * b); }
__device__ __forceinline__ float positive(float x) { return x < 0.0f ? 0.0f : x; }
__device__ __forceinline__ float4 positive(float4 x) { return make_float4(positive(x.x), positive(x.y), positive(x.z), positive(x.w)); }

template <typename V> __device__ __forceinline__ V *rowOf(const Mat &m, i64 i) { return (V *)(m.p + i * m.stride); }
template <typename V> __device__ __forceinline__ constexpr int lanesOf() { return sizeof(V) / sizeof(float); }

struct Sum {
	float *dst;
	const float *const *from; // addends of them
	i64 n;
	int addends, wide;
};

template <typename V> __device__ __forceinline__ void sumAddends(const Sum &p) {
	for (i64 i = firstItem(); i < p.n / lanesOf<V>(); i += itemStep()) {
		V sum = V();
		for (int k = 0; k < p.addends; k++)
			sum = added(sum, ((const V *)p.from[k])[i]);
		((V *)p.dst)[i] = sum;
	}
}

// sum_addends: dst[i] = ((+0.0 + from[0][i]) + from[1][i]) + ...; dst may be one of them.
KERNEL sum_addends(Sum p) {
	if (p.wide)
		sumAddends<float4>(p);
	else
		sumAddends<float>(p);
}

struct Columns {
	Mat dst, src;
	i64 rows;
	int cols, wide;
};

template <typename V> __device__ __forceinline__ void copyColumns(const Columns &p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; j < p.cols / lanesOf<V>(); j += blockDim.x)
			rowOf<V>(p.dst, i)[j] = rowOf<V>(p.src, i)[j];
}

// copy_columns: dst = src, (rows, cols) of any strides.
KERNEL copy_columns(Columns p) {
	if (p.wide)
		copyColumns<float4>(p);
	else
		copyColumns<float>(p);
}

// gate_relu: dst(i, j) = +0.0 unless src(i, j) > 0.
KERNEL gate_relu(Columns p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; j < p.cols; j += blockDim.x)
			if (!(p.src.p[i * p.src.stride + j] > 0.0f))
				p.dst.p[i * p.dst.stride + j] = 0.0f;
}

struct MulAdd {
	Mat dst, a, b, c; // c: or 0; of stride 0 if it is one row
	i64 rows;
	int cols, bCols, wide, pad;
};

template <typename V> __device__ __forceinline__ void mulAdd(const MulAdd &p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; j < p.cols / lanesOf<V>(); j += blockDim.x) {
			V a = rowOf<V>(p.a, i)[j];
			V y = p.bCols == 1 ? product(a, *rowOf<float>(p.b, i)) : product(a, rowOf<V>(p.b, i)[j]);
			rowOf<V>(p.dst, i)[j] = p.c.p ? added(y, rowOf<V>(p.c, i)[j]) : y;
		}
}

// mul_add: dst = a * b + c; b may have one column.
KERNEL mul_add(MulAdd p) {
	if (p.wide)
		mulAdd<float4>(p);
	else
		mulAdd<float>(p);
}

// exp64 and log1p64 are those of internal/f32, operation by operation.

__device__ __forceinline__ double power2(int k) { return __longlong_as_double((i64)(k + 1023) << 52); }

#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define LOG2E 0x1.71547652b82fep+0
#define SQRT2 0x1.6a09e667f3bcdp+0

__device__ double exp64(double x) {
	if (x != x)
		return x;
	if (x > 709.79)
		return __longlong_as_double(0x7ff0000000000000ll);
	if (x < -745.14)
		return 0.0;
	double n = x * LOG2E;
	int k = (int)(n < 0.0 ? n - 0.5 : n + 0.5); // towards 0
	double r = x - (double)k * LN2_HI - (double)k * LN2_LO;
	const double terms[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
		1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1};
	double s = terms[0];
	for (int i = 1; i < 14; i++)
		s = s * r + terms[i];
	int h = k / 2;
	return (s * power2(h)) * power2(k - h);
}

__device__ double twiceAtanh(double s) {
	const double terms[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1};
	double q = s * s, p = terms[0];
	for (int i = 1; i < 12; i++)
		p = p * q + terms[i];
	return 2 * s * p;
}

// log1p64 computes log(1 + x) for the loss: 0 <= x <= 1, or a NaN.
__device__ double log1p64(double x) {
	if (x != x)
		return x;
	if (x < 0.41)
		return x == 0.0 ? x : twiceAtanh(x / (2 + x));
	double m = 1 + x;
	int k = 0;
	if (m >= 2) { // x is 1: 2^1 * 1
		m /= 2;
		k = 1;
	}
	if (m > SQRT2) {
		m /= 2;
		k++;
	}
	double l = twiceAtanh((m - 1) / (m + 1));
	return (double)k * LN2_HI + ((double)k * LN2_LO + l);
}

struct Loss {
	float *loss, *out;
	const float *logit, *label, *weight; // weight 0: all are 1
	i64 n;
	float scale, positive;
};

// sigmoid_bce: in float64, rounded once, as kernels.Stream.WeightedSigmoidBCE.
KERNEL sigmoid_bce(Loss p) {
	for (i64 i = firstItem(); i < p.n; i += itemStep()) {
		double z = (double)p.logit[i], y = (double)p.label[i];
		double e = exp64(z < 0 || z != z ? z : -z);
		double q = z < 0 ? e / (1 + e) : 1 / (1 + e);
		double above = z > 0 || z != z ? z : 0.0;
		double factor = y > 0 ? (double)p.positive : 1.0;
		if (p.weight)
			factor = factor * (double)p.weight[i];
		p.loss[i] = (float)((log1p64(e) + above - z * y) * factor);
		p.out[i] = (float)(((q - y) * factor) * (double)p.scale);
	}
}

KERNEL sigmoid(Loss p) {
	for (i64 i = firstItem(); i < p.n; i += itemStep()) {
		double z = (double)p.logit[i];
		double e = exp64(z < 0 ? z : -z);
		p.out[i] = (float)(z < 0 ? e / (1 + e) : 1 / (1 + e));
	}
}

// Bias, activation and column sums after a product by cuBLAS. The exact products of gemm.cu
// include them.

struct Follow {
	Mat y;
	const float *bias; // of the columns, or 0
	i64 rows;
	int cols, relu, wide, pad;
};

template <typename V> __device__ __forceinline__ void addBias(const Follow &p) {
	for (i64 i = firstRow(); i < p.rows; i += rowStep())
		for (int j = threadIdx.x; j < p.cols / lanesOf<V>(); j += blockDim.x) {
			V *y = rowOf<V>(p.y, i) + j;
			V v = p.bias ? added(*y, ((const V *)p.bias)[j]) : *y;
			*y = p.relu ? positive(v) : v;
		}
}

// add_bias: y = act(y + bias).
KERNEL add_bias(Follow p) {
	if (p.wide)
		addBias<float4>(p);
	else
		addBias<float>(p);
}

struct ColumnSums {
	Mat y;
	float *sums; // (chunks of y's rows, cols)
	i64 rows, each;
	int cols, parts; // parts: blocks that share the columns of a chunk
};

// column_sums: row c of sums = the column sums of the each rows of y from c*each on, in order.
// parts blocks take a chunk of rows. A second launch over the result, as one chunk, adds up the
// chunks.
KERNEL column_sums(ColumnSums p) {
	for (i64 w = blockIdx.x; w / p.parts * p.each < p.rows; w += gridDim.x) {
		i64 c = w / p.parts, end = (c + 1) * p.each < p.rows ? (c + 1) * p.each : p.rows;
		for (int j = (int)(w - c * p.parts) * blockDim.x + threadIdx.x; j < p.cols; j += p.parts * blockDim.x) {
			float sum = 0.0f;
#pragma unroll 8
			for (i64 i = c * p.each; i < end; i++)
				sum = sum + p.y.p[i * p.y.stride + j];
			p.sums[c * p.cols + j] = sum;
		}
	}
}
