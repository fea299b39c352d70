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

enum State { READY, WAITING, DONE };

#if defined(__x86_64__)
typedef void *Context;
// switchTo saves what a call preserves on the stack, leaves its address in *from, and goes on
// where to was left.
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
	abort(); // nobody goes on with what is done
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
	fibers[current].state = WAITING;
	leave();
}

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
		for (unsigned round = 0, left = threads; left > 0; round++) {
			unsigned waiting = 0;
			for (unsigned i = 0; i < threads; i++) {
				unsigned t = round % 2 ? threads - 1 - i : i; // no order of threads is promised
				if (fibers[t].state == DONE)
					continue;
				resume(t);
				if (fibers[t].state == DONE)
					left--;
				else
					waiting++;
			}
			if (waiting > 0 && left < threads)
				return "some threads of a block wait at a barrier that others have left out";
		}
	}
	return nullptr;
}
