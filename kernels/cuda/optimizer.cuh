// The update rules of kernels.Rules, numbered by their places there. Products are separate
// operations: nothing is fused. A new rule is a case of step; one whose state belongs to a row
// is also a case of apply in sums.cu.

enum { SGD = 0, MOMENTUM = 1, ADAGRAD = 2, ROWWISE_ADAGRAD = 3, ADAM = 4, ADAMW = 5, FTRL = 6, RULES };

struct Optimizer {
	int kind;
	float lr, momentum, eps, beta1, beta2, c1, c2, stepSize, biasSqrt;
	float beta, l1, l2, scale, decay, keep;
};

// unknown reports a rule that has no body here; the stream's next Sync panics.
__device__ __forceinline__ bool unknown(const Optimizer &o, u64 *fault, int op) { return outside(fault, op, RULE, o.kind, RULES); }

// step updates one weight: s and v are its state, where the rule has any.
__device__ __forceinline__ void step(const Optimizer &o, float *w, float *s, float *v, float g) {
	switch (o.kind) {
	case SGD:
		*w = *w - o.lr * g;
		break;
	case MOMENTUM: {
		float m = o.momentum * *s + g;
		*s = m;
		*w = *w - o.lr * m;
		break;
	}
	case ADAGRAD: {
		float q = *s + g * g;
		*s = q;
		*w = *w - (o.lr * g) / (__fsqrt_rn(q) + o.eps);
		break;
	}
	case ADAMW:
		*w = o.keep * *w;
		// then as adam
	case ADAM: {
		float m = o.beta1 * *s + o.c1 * g;
		float q = o.beta2 * *v + o.c2 * (g * g);
		*s = m;
		*v = q;
		*w = *w - (o.stepSize * m) / (__fsqrt_rn(q) / o.biasSqrt + o.eps);
		break;
	}
	case FTRL: {
		float n = *v + g * g, root = __fsqrt_rn(n);
		float sigma = (root - __fsqrt_rn(*v)) / o.lr;
		float z = (*s + g) - sigma * *w;
		*s = z;
		*v = n;
		float over = fabsf(z) - o.l1;
		*w = over <= 0.0f ? 0.0f : -(copysignf(over, z) / ((o.beta + root) / o.lr + o.l2));
		break;
	}
	}
}

__device__ __forceinline__ bool changesGradient(const Optimizer &o) { return o.scale != 1.0f || o.decay != 0.0f; }

// changed is a gradient after scale and weight decay; a rule that decouples weight decay has none
// here.
__device__ __forceinline__ float changed(const Optimizer &o, float g, float w) {
	if (o.scale != 1.0f)
		g = o.scale * g;
	return o.decay != 0.0f ? g + o.decay * w : g;
}

enum { ROW_PARTS = 4 }; // MaxRowParts

// RowPart is a part of a row: its rule, its weights in the row, and its state there.
struct RowPart {
	Optimizer opt;
	int first, width, state;
};

struct UpdateDense {
	Optimizer opt;
	i64 n;
	float *w, *state;
	const float *g;
	u64 *fault;
};

// update_dense applies a rule to n weights; the second floats of state follow the first.
KERNEL update_dense(UpdateDense p) {
	if (unknown(p.opt, p.fault, 9))
		return;
	for (i64 i = firstItem(); i < p.n; i += itemStep())
		step(p.opt, p.w + i, p.state + i, p.state + p.n + i, changed(p.opt, p.g[i], p.w[i]));
}
