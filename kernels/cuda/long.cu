// Kernels for long segments, which the kernels of short.cu have listed.

// copyLater starts a copy to shared memory.
__device__ __forceinline__ void copyLater(float *to, const float *from) { copyFloat(to, from); }
__device__ __forceinline__ void copyLater(int *to, const int *from) { copyFloat((float *)to, (const float *)from); }
__device__ __forceinline__ void copyLater(float4 *to, const float4 *from) { copyFloats((float *)to, (const float *)from, 4); }

// Tiles of LONG_LOOKUPS lookups of LONG_COLUMNS columns are loaded LONG_TILES - 1 ahead of the
// additions, and their positions as far ahead of them. One warp adds, the others load.
struct LongTiles {
	float4 x[LONG_TILES][LONG_LOOKUPS][LONG_COLUMNS / 4];
	float f[LONG_TILES][LONG_LOOKUPS];
	int pos[2 * LONG_TILES][LONG_LOOKUPS];
};

// loadPositions starts the copies of the positions of tile i of [lo, hi).
__device__ __forceinline__ void loadPositions(const Segments &p, LongTiles &t, int i, int lo, int hi) {
	int at = lo + i * LONG_LOOKUPS, k = (threadIdx.y - 1) * LONG_LANES + threadIdx.x;
	for (; k < LONG_LOOKUPS && at + k < hi; k += LONG_LOADERS)
		copyLater(&t.pos[i % (2 * LONG_TILES)][k], p.pos + at + k);
}

// loadTile starts the copies of tile i: columns [column, column + LONG_COLUMNS) of its lookups.
template <typename V> __device__ __forceinline__ void loadTile(const Segments &p, LongTiles &t, int i, int lo, int hi, int column) {
	const int width = sizeof(V) / sizeof(float), each = LONG_COLUMNS / width;
	const int at = lo + i * LONG_LOOKUPS, n = hi - at < LONG_LOOKUPS ? hi - at : LONG_LOOKUPS;
	const int *pos = t.pos[i % (2 * LONG_TILES)];
	V *to = (V *)t.x[i % LONG_TILES];
	const int thread = (threadIdx.y - 1) * LONG_LANES + threadIdx.x, j = thread % each;
	if (column + j * width < p.d)
#pragma unroll 4
		for (int k = thread / each; k < n; k += LONG_LOADERS / each) {
			if (outside(p.fault, p.op, POS, pos[k], p.limit))
				to[k * each + j] = zeroOf(V());
			else
				copyLater(to + k * each + j, (const V *)(lookup(p, pos[k]) + column) + j);
		}
	if (p.factors)
		for (int k = thread; k < n; k += LONG_LOADERS)
			copyLater(&t.f[i % LONG_TILES][k], p.factors + at + k);
}

// addTile adds n lookups of a tile to a thread's sum.
__device__ __forceinline__ float addTile(const Segments &p, const LongTiles &t, int i, int n, float sum) {
	const float *x = (const float *)t.x[i % LONG_TILES] + threadIdx.x, *f = t.f[i % LONG_TILES];
	if (p.factors) {
		for (int k = 0; k < n; k++)
			sum = sum + f[k] * x[k * LONG_COLUMNS];
		return sum;
	}
	if (n == LONG_LOOKUPS) { // a batch is loaded while the one before is added
		float y[2][LONG_BATCH];
#pragma unroll
		for (int k = -LONG_BATCH; k < LONG_LOOKUPS; k += LONG_BATCH) {
#pragma unroll
			for (int b = 0; b < LONG_BATCH && k + LONG_BATCH < LONG_LOOKUPS; b++)
				y[(k / LONG_BATCH + 1) % 2][b] = x[(k + LONG_BATCH + b) * LONG_COLUMNS];
#pragma unroll
			for (int b = 0; b < LONG_BATCH && k >= 0; b++)
				sum = sum + y[k / LONG_BATCH % 2][b];
		}
		return sum;
	}
#pragma unroll 4
	for (int k = 0; k < n; k++)
		sum = sum + x[k * LONG_COLUMNS];
	return sum;
}

template <typename V> __device__ __forceinline__ float sumLong(const Segments &p, LongTiles &t, int lo, int hi, int column) {
	const int tiles = (hi - lo + LONG_LOOKUPS - 1) / LONG_LOOKUPS;
	const bool loads = threadIdx.y > 0, adds = threadIdx.y == 0 && threadIdx.x < LONG_COLUMNS;
	float sum = 0.0f;
	__syncthreads(); // the tiles of the segment before are free
	if (loads) {
		for (int i = 0; i < LONG_TILES; i++)
			loadPositions(p, t, i, lo, hi);
		commitCopies();
		waitCopies<0>();
	}
	__syncthreads();
	// Group i of copies: tile i, and the positions of tile i + LONG_TILES.
	if (loads)
		for (int i = 0; i < LONG_TILES - 1; i++) {
			if (i < tiles)
				loadTile<V>(p, t, i, lo, hi, column);
			loadPositions(p, t, i + LONG_TILES, lo, hi);
			commitCopies();
		}
	for (int i = 0; i < tiles; i++) {
		if (loads)
			waitCopies<LONG_TILES - 2>(); // tile i is there
		__syncthreads(); // and tile i - 1 is added
		if (adds) {
			int n = hi - lo - i * LONG_LOOKUPS;
			sum = addTile(p, t, i, n < LONG_LOOKUPS ? n : LONG_LOOKUPS, sum);
		}
		if (loads) {
			int next = i + LONG_TILES - 1;
			if (next < tiles)
				loadTile<V>(p, t, next, lo, hi, column);
			loadPositions(p, t, next + LONG_TILES, lo, hi);
			commitCopies();
		}
	}
	if (loads)
		waitCopies<0>();
	return sum;
}

// sum_long sums the listed segments: blockDim is (LONG_LANES, 1 + loaders), and blocks take
// turns to take LONG_COLUMNS columns of a segment. Sums go to dst, or to row i of sums for update_long.
KERNEL sum_long(Segments p) {
	__shared__ LongTiles tiles;
	__shared__ int taken;
	const int parts = (p.d + LONG_COLUMNS - 1) / LONG_COLUMNS;
	const i64 work = (i64)longOnes(p) * parts;
	const bool four = ((u64)p.src.p % 16 | p.src.stride % 4 | p.d % 4) == 0;
	while (work > 0) {
		if (threadIdx.y == 0 && threadIdx.x == 0)
			taken = atomicAdd(counter(p, TAKEN), 1);
		__syncthreads();
		i64 w = taken, i = w / parts;
		if (w >= work)
			break;
		int s = longOne(p, i), first = (int)(w - i * parts) * LONG_COLUMNS, column = first + threadIdx.x;
		int lo = p.start[s], hi = p.start[s + 1];
		float sum = four ? sumLong<float4>(p, tiles, lo, hi, first) : sumLong<float>(p, tiles, lo, hi, first);
		if (threadIdx.y == 0 && threadIdx.x < LONG_COLUMNS && column < p.d)
			*(p.update ? p.sums + i * p.d + column : p.dst.p + s * p.dst.stride + column) = sum;
	}
}

// update_long updates the rows whose sums sum_long left; a block takes a row.
KERNEL update_long(Segments p) {
	__shared__ float lanes[LANES];
	if (unknownRule(p))
		return;
	const int n = longOnes(p);
	for (i64 i = blockIdx.x; i < n; i += gridDim.x) {
		float *row = rowOf(p, p.slots[longOne(p, i)]);
		if (row == 0)
			continue; // a fault, which all threads of the block find
		float *g = p.sums + i * p.d;
		for (int k = 0; k < p.update; k++) {
			const RowPart &part = p.parts[k];
			if (changesGradient(part.opt)) {
				change(part, row, g + part.first);
				__syncthreads();
			}
			if (part.opt.kind == ROWWISE_ADAGRAD) {
				squares(lanes, g + part.first, part.width);
				__syncthreads();
			}
			float q = apply(part, row, g + part.first, lanes);
			__syncthreads();
			storeState(part, row, q);
		}
	}
}
