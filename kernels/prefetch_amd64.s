#include "textflag.h"

// PREFETCH prefetches memory[at[i]], of elements of SCALE bytes, for i < n. n > 0.
#define PREFETCH(SCALE) \
	MOVQ memory+0(FP), DI;\
	MOVQ at+8(FP), SI;\
	MOVQ n+16(FP), CX;\
	LEAQ (SI)(CX*4), SI;\
	NEGQ CX;\
loop:;\
	MOVLQSX (SI)(CX*4), AX;\
	PREFETCHT0 (DI)(AX*SCALE);\
	INCQ CX;\
	JNZ  loop;\
	RET

// func prefetch4(memory *uint32, at *int32, n int)
TEXT ·prefetch4(SB), NOSPLIT, $0-24
	PREFETCH(4)

// func prefetch8(memory *uint64, at *int32, n int)
TEXT ·prefetch8(SB), NOSPLIT, $0-24
	PREFETCH(8)

// func prefetchBits(memory *uint64, at *int32, n int)
TEXT ·prefetchBits(SB), NOSPLIT, $0-24
	MOVQ memory+0(FP), DI
	MOVQ at+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ (SI)(CX*4), SI
	NEGQ CX

bits:
	MOVL (SI)(CX*4), AX
	SHRL $6, AX
	PREFETCHT0 (DI)(AX*8)
	INCQ CX
	JNZ  bits
	RET

// func prefetchBytes(from unsafe.Pointer, n int)
// It prefetches n bytes, at least 1, line by line.
TEXT ·prefetchBytes(SB), NOSPLIT, $0-16
	MOVQ from+0(FP), SI
	MOVQ n+8(FP), CX
	ADDQ SI, CX

lines:
	PREFETCHT0 (SI)
	ADDQ       $64, SI
	CMPQ       SI, CX
	JLT        lines
	RET
