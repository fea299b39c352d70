#include "go_asm.h"
#include "textflag.h"

// SPREAD sets all lanes of a register to a constant.
#define SPREAD(constant, x, y) \
	MOVL         constant, AX; \
	VMOVD        AX, x; \
	VPBROADCASTD x, y

// ROUND is one round of Philox on four blocks: lane i of Y0 to Y3 has a word of block i
// in its low half; its high half is undefined.
#define ROUND \
	VPMULUDQ Y0, Y8, Y6; \
	VPMULUDQ Y2, Y9, Y7; \
	VPSRLQ   $32, Y7, Y0; \
	VPSRLQ   $32, Y6, Y2; \
	VPXOR    Y1, Y0, Y0; \
	VPXOR    Y3, Y2, Y2; \
	VPXOR    Y4, Y0, Y0; \
	VPXOR    Y5, Y2, Y2; \
	VMOVDQA  Y7, Y1; \
	VMOVDQA  Y6, Y3; \
	VPADDD   Y10, Y4, Y4; \
	VPADDD   Y11, Y5, Y5

// SYMMETRIC makes weights of random bits: rng.Symmetric, times the scale.
#define SYMMETRIC(y) \
	VPSRLD    $9, y, y; \
	VCVTDQ2PS y, y; \
	VADDPS    Y12, y, y; \
	VSUBPS    Y13, y, y; \
	VMULPS    Y14, y, y; \
	VMULPS    Y15, y, y

// func drawAVX2(dst []float32, d *rowDraw)
// for b < len(dst)/4 { dst[4*b:] = the weights of block d.counter[3] + b }
// Sixteen weights at a time, of which dst is a multiple.
TEXT ·drawAVX2(SB), NOSPLIT, $0-32
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ d+24(FP), SI

	SPREAD($0xD2511F53, X8, Y8)
	SPREAD($0xCD9E8D57, X9, Y9)
	SPREAD($0x9E3779B9, X10, Y10)
	SPREAD($0xBB67AE85, X11, Y11)
	SPREAD($0x3F000000, X12, Y12) // 0.5
	SPREAD($0x4A800000, X13, Y13) // 2^22
	SPREAD($0x34800000, X14, Y14) // 2^-22
	VBROADCASTSS rowDraw_scale(SI), Y15
	MOVL         (rowDraw_counter+12)(SI), BX

next16:
	SUBQ $16, CX
	JLT  done

	VPBROADCASTD rowDraw_counter(SI), Y0
	VPBROADCASTD (rowDraw_counter+4)(SI), Y1
	VPBROADCASTD (rowDraw_counter+8)(SI), Y2
	VMOVD        BX, X3
	VPBROADCASTD X3, Y3
	VPADDD       fourBlocks<>(SB), Y3, Y3
	ADDL         $4, BX
	VPBROADCASTD rowDraw_key(SI), Y4
	VPBROADCASTD (rowDraw_key+4)(SI), Y5

	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND
	ROUND

	// Words 0 and 1 of each block side by side, and words 2 and 3; then all four.
	VPSLLQ      $32, Y1, Y1
	VPSLLQ      $32, Y3, Y3
	VPBLENDD    $0xAA, Y1, Y0, Y0
	VPBLENDD    $0xAA, Y3, Y2, Y2
	VPUNPCKLQDQ Y2, Y0, Y6
	VPUNPCKHQDQ Y2, Y0, Y7
	VPERM2I128  $0x20, Y7, Y6, Y0
	VPERM2I128  $0x31, Y7, Y6, Y1
	SYMMETRIC(Y0)
	SYMMETRIC(Y1)
	VMOVUPS     Y0, (DI)
	VMOVUPS     Y1, 32(DI)
	ADDQ        $64, DI
	JMP         next16

done:
	VZEROUPPER
	RET

DATA fourBlocks<>+0(SB)/8, $0
DATA fourBlocks<>+8(SB)/8, $1
DATA fourBlocks<>+16(SB)/8, $2
DATA fourBlocks<>+24(SB)/8, $3
GLOBL fourBlocks<>(SB), RODATA|NOPTR, $32
