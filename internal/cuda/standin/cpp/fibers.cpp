// The threads of a block, as fibers on one thread of the host.
#include "shim.h"

#include <cstdlib>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

Dim threadIdx, blockIdx, blockDim, gridDim;

namespace {

const unsigned mostThreads = 1024;
const size_t stackBytes = 64 << 10;

enum State { READY, IN_WARP, IN_BLOCK, DONE }; // IN_WARP, IN_BLOCK: at a barrier

#if defined(__x86_64__)
typedef void *Context;
// switchTo saves the registers that a call preserves on the stack, stores the stack's address in
// *from, and continues the fiber that left its address in to.
extern "C" void switchTo(void **from, void *to);
asm(".text\n"
	"switchTo:\n"
	"pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
	"movq %rsp, (%rdi)\n"
	"movq %rsi, %rsp\n"
	"popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
	"ret\n");
#else
typedef ucontext_t Context;
#endif

struct Fiber {
	Context at;
	State state;
	char *stack;
} fibers[mostThreads];

Context scheduler;
unsigned current;
void (*body)(const void *);
const void *arguments;

void leave() {
#if defined(__x86_64__)
	switchTo(&fibers[current].at, scheduler);
#else
	swapcontext(&fibers[current].at, &scheduler);
#endif
}

void start() {
	body(arguments);
	fibers[current].state = DONE;
	leave();
	abort(); // a finished fiber is never continued
}

void make(Fiber *f) {
	if (f->stack == nullptr)
		f->stack = (char *)aligned_alloc(64, stackBytes);
	f->state = READY;
#if defined(__x86_64__)
	void **top = (void **)(f->stack + stackBytes);
	*--top = nullptr; // keeps the stack aligned as after a call
	*--top = (void *)start;
	for (int i = 0; i < 6; i++)
		*--top = nullptr;
	f->at = top;
#else
	getcontext(&f->at);
	f->at.uc_stack.ss_sp = f->stack;
	f->at.uc_stack.ss_size = stackBytes;
	makecontext(&f->at, start, 0);
#endif
}

void resume(unsigned t) {
	current = t;
	threadIdx = {t % blockDim.x, t / blockDim.x, 0};
#if defined(__x86_64__)
	switchTo(&scheduler, fibers[t].at);
#else
	swapcontext(&scheduler, &fibers[t].at);
#endif
}

} // namespace

void barrier() {
	fibers[current].state = IN_BLOCK;
	leave();
}

void warpBarrier() {
	fibers[current].state = IN_WARP;
	leave();
}

namespace {

const unsigned warpThreads = 32;

// runWarp runs the threads of a warp, in reverse order if backwards is set, until all are done or
// at a barrier of the block. It returns the number at a barrier, or -1 if only some of them reached
// a barrier of the warp.
int runWarp(unsigned first, unsigned threads, bool backwards) {
	for (;;) {
		unsigned in[DONE + 1] = {};
		for (unsigned i = 0; i < threads; i++) {
			Fiber *f = &fibers[first + (backwards ? threads - 1 - i : i)];
			if (f->state == READY)
				resume((unsigned)(f - fibers));
			in[f->state]++;
		}
		if (in[IN_WARP] == 0)
			return (int)in[IN_BLOCK];
		if (in[IN_WARP] < threads)
			return -1;
		for (unsigned i = 0; i < threads; i++)
			fibers[first + i].state = READY;
	}
}

} // namespace

const char *runBlocks(void (*kernel)(const void *), const void *params, unsigned blocks, unsigned x, unsigned y) {
	const unsigned threads = x * y;
	if (threads == 0 || threads > mostThreads)
		return "a block of no threads or of more than 1024";
	body = kernel;
	arguments = params;
	blockDim = {x, y, 1};
	gridDim = {blocks, 1, 1};
	for (unsigned b = 0; b < blocks; b++) {
		blockIdx = {b, 0, 0};
		for (unsigned t = 0; t < threads; t++)
			make(&fibers[t]);
		for (bool backwards = false;; backwards = !backwards) { // CUDA defines no order of threads
			const unsigned warps = (threads + warpThreads - 1) / warpThreads;
			unsigned waiting = 0;
			for (unsigned i = 0; i < warps; i++) {
				unsigned first = (backwards ? warps - 1 - i : i) * warpThreads;
				int n = runWarp(first, threads - first < warpThreads ? threads - first : warpThreads, backwards);
				if (n < 0)
					return "some threads of a warp wait at a barrier that others have left out";
				waiting += (unsigned)n;
			}
			if (waiting == 0)
				break;
			if (waiting < threads)
				return "some threads of a block wait at a barrier that others have left out";
			for (unsigned t = 0; t < threads; t++)
				fibers[t].state = READY;
		}
	}
	return nullptr;
}
