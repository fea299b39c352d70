// The update rules of kernels.Optimizer. Products are separate operations: nothing is fused.

enum { SGD = 0, MOMENTUM = 1, ADAGRAD = 2, ROWWISE_ADAGRAD = 3, ADAM = 4 };

struct Optimizer {
	int kind;
	float lr, momentum, eps, beta1, beta2, c1, c2, stepSize, biasSqrt;
};

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
	case ADAM: {
		float m = o.beta1 * *s + o.c1 * g;
		float q = o.beta2 * *v + o.c2 * (g * g);
		*s = m;
		*v = q;
		*w = *w - (o.stepSize * m) / (__fsqrt_rn(q) / o.biasSqrt + o.eps);
		break;
	}
	}
}

struct UpdateDense {
	Optimizer opt;
	i64 n;
	float *w, *state;
	const float *g;
};

// update_dense applies a rule to n weights; adam's second moments follow its first.
KERNEL update_dense(UpdateDense p) {
	for (i64 i = firstItem(); i < p.n; i += itemStep())
		step(p.opt, p.w + i, p.state + i, p.state + p.n + i, p.g[i]);
}
