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

// ROUND2 is ROUND on Y12 to Y15, with the key of the ROUND that follows it.
#define ROUND2 \
	VPMULUDQ Y12, Y8, Y6; \
	VPMULUDQ Y14, Y9, Y7; \
	VPSRLQ   $32, Y7, Y12; \
	VPSRLQ   $32, Y6, Y14; \
	VPXOR    Y13, Y12, Y12; \
	VPXOR    Y15, Y14, Y14; \
	VPXOR    Y4, Y12, Y12; \
	VPXOR    Y5, Y14, Y14; \
	VMOVDQA  Y7, Y13; \
	VMOVDQA  Y6, Y15

// WEIGHTS is SYMMETRIC with constants in memory, and the scale in Y5.
#define WEIGHTS(y) \
	VPSRLD    $9, y, y; \
	VCVTDQ2PS y, y; \
	VADDPS    half<>(SB), y, y; \
	VSUBPS    two22<>(SB), y, y; \
	VMULPS    less22<>(SB), y, y; \
	VMULPS    Y5, y, y

// STORE orders the words of four blocks and stores the weights of them.
#define STORE(a, b, c, d, to) \
	VPSLLQ      $32, b, b; \
	VPSLLQ      $32, d, d; \
	VPBLENDD    $0xAA, b, a, a; \
	VPBLENDD    $0xAA, d, c, c; \
	VPUNPCKLQDQ c, a, Y6; \
	VPUNPCKHQDQ c, a, Y7; \
	VPERM2I128  $0x20, Y7, Y6, a; \
	VPERM2I128  $0x31, Y7, Y6, b; \
	WEIGHTS(a); \
	WEIGHTS(b); \
	VMOVUPS     a, (to); \
	VMOVUPS     b, 32(to); \
	ADDQ        $64, to

// func drawTwoAVX2(first, second []float32, d, e *rowDraw)
// drawAVX2 of two rows. A round waits for the products of the one before it: the rounds of the other row run meanwhile.
TEXT ·drawTwoAVX2(SB), NOSPLIT, $0-64
	MOVQ first_base+0(FP), DI
	MOVQ first_len+8(FP), CX
	MOVQ second_base+24(FP), R8
	MOVQ d+48(FP), SI
	MOVQ e+56(FP), R9

	SPREAD($0xD2511F53, X8, Y8)
	SPREAD($0xCD9E8D57, X9, Y9)
	SPREAD($0x9E3779B9, X10, Y10)
	SPREAD($0xBB67AE85, X11, Y11)
	MOVL (rowDraw_counter+12)(SI), BX
	MOVL (rowDraw_counter+12)(R9), DX

twoNext16:
	SUBQ $16, CX
	JLT  twoDone

	VPBROADCASTD rowDraw_counter(SI), Y0
	VPBROADCASTD (rowDraw_counter+4)(SI), Y1
	VPBROADCASTD (rowDraw_counter+8)(SI), Y2
	VMOVD        BX, X3
	VPBROADCASTD X3, Y3
	VPADDD       fourBlocks<>(SB), Y3, Y3
	ADDL         $4, BX
	VPBROADCASTD rowDraw_counter(R9), Y12
	VPBROADCASTD (rowDraw_counter+4)(R9), Y13
	VPBROADCASTD (rowDraw_counter+8)(R9), Y14
	VMOVD        DX, X15
	VPBROADCASTD X15, Y15
	VPADDD       fourBlocks<>(SB), Y15, Y15
	ADDL         $4, DX
	VPBROADCASTD rowDraw_key(SI), Y4
	VPBROADCASTD (rowDraw_key+4)(SI), Y5

	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND
	ROUND2
	ROUND

	VBROADCASTSS rowDraw_scale(SI), Y5
	STORE(Y0, Y1, Y2, Y3, DI)
	STORE(Y12, Y13, Y14, Y15, R8)
	JMP twoNext16

twoDone:
	VZEROUPPER
	RET

// ROUNDZ is ROUND on eight blocks, with words 1 and 3 in b and d. They are in y and x after it.
#define ROUNDZ(b, d, x, y) \
	VPMULUDQ   Z0, Z8, x; \
	VPMULUDQ   Z2, Z9, y; \
	VPSRLQ     $32, y, Z0; \
	VPSRLQ     $32, x, Z2; \
	VPTERNLOGQ $0x96, Z4, b, Z0; \
	VPTERNLOGQ $0x96, Z5, d, Z2; \
	VPADDD     Z10, Z4, Z4; \
	VPADDD     Z11, Z5, Z5

// BOTH makes a word of the blocks of both rows.
#define BOTH(word, y, z) \
	VPBROADCASTD word(SI), y; \
	VPBROADCASTD word(R9), Y16; \
	VINSERTI64X4 $1, Y16, z, z

// func drawTwoAVX512(first, second []float32, d, e *rowDraw)
// The blocks of the first row are in the lower halves of Z0 to Z3, those of the second in the upper ones.
TEXT ·drawTwoAVX512(SB), NOSPLIT, $0-64
	MOVQ first_base+0(FP), DI
	MOVQ first_len+8(FP), CX
	MOVQ second_base+24(FP), R8
	MOVQ d+48(FP), SI
	MOVQ e+56(FP), R9

	MOVL         $0xD2511F53, AX
	VPBROADCASTD AX, Z8
	MOVL         $0xCD9E8D57, AX
	VPBROADCASTD AX, Z9
	MOVL         $0x9E3779B9, AX
	VPBROADCASTD AX, Z10
	MOVL         $0xBB67AE85, AX
	VPBROADCASTD AX, Z11
	XORL         BX, BX

wideNext16:
	SUBQ $16, CX
	JLT  wideDone

	BOTH(rowDraw_counter, Y0, Z0)
	BOTH((rowDraw_counter+4), Y1, Z1)
	BOTH((rowDraw_counter+8), Y2, Z2)
	VPBROADCASTD BX, Y17
	VPADDD       fourBlocks<>(SB), Y17, Y17
	VPBROADCASTD (rowDraw_counter+12)(SI), Y3
	VPADDD       Y17, Y3, Y3
	VPBROADCASTD (rowDraw_counter+12)(R9), Y16
	VPADDD       Y17, Y16, Y16
	VINSERTI64X4 $1, Y16, Z3, Z3
	ADDL         $4, BX
	VPBROADCASTD rowDraw_key(SI), Z4
	VPBROADCASTD (rowDraw_key+4)(SI), Z5

	ROUNDZ(Z1, Z3, Z6, Z7)
	ROUNDZ(Z7, Z6, Z3, Z1)
	ROUNDZ(Z1, Z3, Z6, Z7)
	ROUNDZ(Z7, Z6, Z3, Z1)
	ROUNDZ(Z1, Z3, Z6, Z7)
	ROUNDZ(Z7, Z6, Z3, Z1)
	ROUNDZ(Z1, Z3, Z6, Z7)
	ROUNDZ(Z7, Z6, Z3, Z1)
	ROUNDZ(Z1, Z3, Z6, Z7)
	ROUNDZ(Z7, Z6, Z3, Z1)

	VEXTRACTI64X4 $1, Z0, Y12
	VEXTRACTI64X4 $1, Z1, Y13
	VEXTRACTI64X4 $1, Z2, Y14
	VEXTRACTI64X4 $1, Z3, Y15
	VBROADCASTSS  rowDraw_scale(SI), Y5
	STORE(Y0, Y1, Y2, Y3, DI)
	STORE(Y12, Y13, Y14, Y15, R8)
	JMP wideNext16

wideDone:
	VZEROUPPER
	RET

#define CONSTANT(name, bits) \
	DATA name<>+0(SB)/8, $bits; \
	DATA name<>+8(SB)/8, $bits; \
	DATA name<>+16(SB)/8, $bits; \
	DATA name<>+24(SB)/8, $bits; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONSTANT(half, 0x3F0000003F000000)
CONSTANT(two22, 0x4A8000004A800000)
CONSTANT(less22, 0x3480000034800000)

DATA fourBlocks<>+0(SB)/8, $0
DATA fourBlocks<>+8(SB)/8, $1
DATA fourBlocks<>+16(SB)/8, $2
DATA fourBlocks<>+24(SB)/8, $3
GLOBL fourBlocks<>(SB), RODATA|NOPTR, $32
