#include "textflag.h"

// func prefetch(memory *uint64, at *int32, n int)
// for i := range n { prefetcht0 memory[at[i]] }, n > 0
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ memory+0(FP), DI
	MOVQ at+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ (SI)(CX*4), SI
	NEGQ CX

loop:
	MOVLQSX (SI)(CX*4), AX
	PREFETCHT0 (DI)(AX*8)
	INCQ CX
	JNZ  loop
	RET
