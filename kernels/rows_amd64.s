#include "go_asm.h"
#include "textflag.h"

// Rows are scattered over memory, so most of the time is waiting for them. Each lookup
// first prefetches the row of a later lookup, which index or positions name. A row is
// prefetched line by line, including the line of its last byte.

// ASK prefetches the R9 bytes at R13. It uses R14.
#define ASK(again) \
	LEAQ       -1(R13)(R9*1), R14; \
again: \
	PREFETCHT0 (R13); \
	ADDQ       $64, R13; \
	CMPQ       R13, R14; \
	JLS        again; \
	PREFETCHT0 (R14)

// func gatherAVX2(c *rowCopy)
// for i < rows { for j < t { dst[i][j*d : j*d+d] = src[index[i*t+j]][:d] } }
// If c.bypass is set, each of these rows fills cache lines exactly.
TEXT ·gatherAVX2(SB), NOSPLIT, $0-8
	MOVQ c+0(FP), DI
	MOVQ rowCopy_src(DI), SI
	MOVQ rowCopy_srcStride(DI), R8
	SHLQ $2, R8
	MOVQ rowCopy_d(DI), R9
	SHLQ $2, R9
	MOVQ rowCopy_dst(DI), R10
	MOVQ rowCopy_index(DI), BX
	MOVQ (rowCopy_index+8)(DI), DX
	LEAQ -4(BX)(DX*4), DX
	MOVQ rowCopy_ahead(DI), R11
	LEAQ (BX)(R11*4), R11

row:
	SUBQ $1, rowCopy_rows(DI)
	JLT  done
	MOVQ R10, R12
	MOVQ rowCopy_t(DI), CX

lookup:
	CMPQ    R11, DX
	CMOVQHI DX, R11
	MOVLQSX (R11), R13
	ADDQ    $4, R11
	IMULQ   R8, R13
	ADDQ    SI, R13
	ASK(ask)

	MOVLQSX (BX), AX
	ADDQ    $4, BX
	IMULQ   R8, AX
	ADDQ    SI, AX
	MOVQ    R9, R13
	CMPQ    rowCopy_bypass(DI), $0
	JNE     stream64

copy128:
	SUBQ    $128, R13
	JLT     below128
	VMOVUPS (AX), Y0
	VMOVUPS 32(AX), Y1
	VMOVUPS 64(AX), Y2
	VMOVUPS 96(AX), Y3
	VMOVUPS Y0, (R12)
	VMOVUPS Y1, 32(R12)
	VMOVUPS Y2, 64(R12)
	VMOVUPS Y3, 96(R12)
	ADDQ    $128, AX
	ADDQ    $128, R12
	JMP     copy128

below128:
	TESTQ   $64, R13
	JZ      below64
	VMOVUPS (AX), Y0
	VMOVUPS 32(AX), Y1
	VMOVUPS Y0, (R12)
	VMOVUPS Y1, 32(R12)
	ADDQ    $64, AX
	ADDQ    $64, R12

below64:
	TESTQ   $32, R13
	JZ      below32
	VMOVUPS (AX), Y0
	VMOVUPS Y0, (R12)
	ADDQ    $32, AX
	ADDQ    $32, R12

below32:
	TESTQ   $16, R13
	JZ      below16
	VMOVUPS (AX), X0
	VMOVUPS X0, (R12)
	ADDQ    $16, AX
	ADDQ    $16, R12

below16:
	TESTQ $8, R13
	JZ    below8
	MOVQ  (AX), R14
	MOVQ  R14, (R12)
	ADDQ  $8, AX
	ADDQ  $8, R12

below8:
	TESTQ $4, R13
	JZ    copied
	MOVL  (AX), R14
	MOVL  R14, (R12)
	ADDQ  $4, R12

copied:
	DECQ CX
	JNZ  lookup
	MOVQ rowCopy_dstStride(DI), R12
	LEAQ (R10)(R12*4), R10
	JMP  row

done:
	SFENCE
	VZEROUPPER
	RET

stream64:
	VMOVUPS  (AX), Y0
	VMOVUPS  32(AX), Y1
	VMOVNTPS Y0, (R12)
	VMOVNTPS Y1, 32(R12)
	ADDQ     $64, AX
	ADDQ     $64, R12
	SUBQ     $64, R13
	JNZ      stream64
	JMP      copied

// LOOKUP turns the lookup in r into the address of its floats; it uses AX, DX.
// r = src + 4*(r*step + hi64(r*magic)*gap)
#define LOOKUP(r) \
	MOVQ  r, AX; \
	MULQ  rowSum_magic(DI); \
	IMULQ rowSum_gap(DI), DX; \
	IMULQ rowSum_step(DI), r; \
	ADDQ  DX, r; \
	LEAQ  (SI)(r*4), r

// func sumRowsAVX2(s *rowSum)
// for i < n {
//	dst[i] = zero, or +0.0 if there are no positions
//	for p := start[i]; p < start[i+1]; p++ { dst[i] += lookup pos[p] of src }
// }
TEXT ·sumRowsAVX2(SB), NOSPLIT, $8-8
	MOVQ    s+0(FP), DI
	MOVQ    rowSum_src(DI), SI
	MOVQ    rowSum_start(DI), R8
	MOVQ    rowSum_d(DI), R9
	SHLQ    $2, R9
	MOVQ    rowSum_dst(DI), R10
	MOVQ    rowSum_pos(DI), R11
	MOVQ    (rowSum_pos+8)(DI), R13
	LEAQ    -4(R11)(R13*4), R13
	MOVQ    R13, last-8(SP)
	MOVLQSX (R8), BX
	LEAQ    (R11)(BX*4), BX

segment:
	SUBQ    $1, rowSum_n(DI)
	JLT     done
	MOVLQSX 4(R8), CX
	SUBL    (R8), CX
	ADDQ    $4, R8
	TESTQ   CX, CX
	JNZ     begin

	// No lookup: zeros.
	VXORPS X0, X0, X0
	MOVQ   R9, DX
	MOVQ   R10, R12

zero8:
	SUBQ    $32, DX
	JLT     zero1
	VMOVUPS Y0, (R12)
	ADDQ    $32, R12
	JMP     zero8

zero1:
	ADDQ   $32, DX
	JZ     next

zeroes:
	VMOVSS X0, (R12)
	ADDQ   $4, R12
	SUBQ   $4, DX
	JNZ    zeroes
	JMP    next

begin:
	// The first lookup is added to zero, others to the sum in dst.
	XORQ R11, R11

lookup:
	MOVQ    rowSum_ahead(DI), R13
	LEAQ    (BX)(R13*4), R13
	MOVQ    last-8(SP), R14
	CMPQ    R13, R14
	CMOVQHI R14, R13
	MOVLQSX (R13), R13
	LOOKUP(R13)
	ASK(ask)

	MOVLQSX (BX), R12
	ADDQ    $4, BX
	LOOKUP(R12)
	MOVQ    R9, DX
	MOVQ    R10, AX
	TESTQ   R11, R11
	JNZ     add32

	INCQ         R11
	VBROADCASTSS rowSum_zero(DI), Y15

first8:
	SUBQ    $32, DX
	JLT     first1
	VADDPS  (R12), Y15, Y0
	VMOVUPS Y0, (AX)
	ADDQ    $32, R12
	ADDQ    $32, AX
	JMP     first8

first1:
	ADDQ $32, DX
	JZ   added

firsts:
	VADDSS (R12), X15, X0
	VMOVSS X0, (AX)
	ADDQ   $4, R12
	ADDQ   $4, AX
	SUBQ   $4, DX
	JNZ    firsts
	JMP    added

add32:
	SUBQ    $128, DX
	JLT     add32end
	VMOVUPS (AX), Y0
	VMOVUPS 32(AX), Y1
	VMOVUPS 64(AX), Y2
	VMOVUPS 96(AX), Y3
	VADDPS  (R12), Y0, Y0
	VADDPS  32(R12), Y1, Y1
	VADDPS  64(R12), Y2, Y2
	VADDPS  96(R12), Y3, Y3
	VMOVUPS Y0, (AX)
	VMOVUPS Y1, 32(AX)
	VMOVUPS Y2, 64(AX)
	VMOVUPS Y3, 96(AX)
	ADDQ    $128, R12
	ADDQ    $128, AX
	JMP     add32

add32end:
	ADDQ $128, DX

add8:
	SUBQ    $32, DX
	JLT     add1
	VMOVUPS (AX), Y0
	VADDPS  (R12), Y0, Y0
	VMOVUPS Y0, (AX)
	ADDQ    $32, R12
	ADDQ    $32, AX
	JMP     add8

add1:
	ADDQ $32, DX
	JZ   added

adds:
	VMOVSS (AX), X0
	VADDSS (R12), X0, X0
	VMOVSS X0, (AX)
	ADDQ   $4, R12
	ADDQ   $4, AX
	SUBQ   $4, DX
	JNZ    adds

added:
	DECQ CX
	JNZ  lookup

next:
	MOVQ rowSum_dstStride(DI), DX
	LEAQ (R10)(DX*4), R10
	JMP  segment

done:
	VZEROUPPER
	RET

// func sumWeightedAVX2(s *rowSum)
// for i < n {
//	dst[i] = zero, or +0.0 if there are no positions
//	for p := start[i]; p < start[i+1]; p++ { dst[i] += factors[p] * lookup pos[p] of src }
// }
// The product is rounded before it is added.
TEXT ·sumWeightedAVX2(SB), NOSPLIT, $16-8
	MOVQ    s+0(FP), DI
	MOVQ    rowSum_src(DI), SI
	MOVQ    rowSum_start(DI), R8
	MOVQ    rowSum_d(DI), R9
	SHLQ    $2, R9
	MOVQ    rowSum_dst(DI), R10
	MOVQ    rowSum_pos(DI), R11
	MOVQ    (rowSum_pos+8)(DI), R13
	LEAQ    -4(R11)(R13*4), R13
	MOVQ    R13, last-8(SP)
	MOVLQSX (R8), BX
	MOVQ    rowSum_factors(DI), R13
	LEAQ    (R13)(BX*4), R13
	MOVQ    R13, factor-16(SP)
	LEAQ    (R11)(BX*4), BX

segment:
	SUBQ    $1, rowSum_n(DI)
	JLT     done
	MOVLQSX 4(R8), CX
	SUBL    (R8), CX
	ADDQ    $4, R8

	// The sum begins at zero, at +0.0 without lookups.
	VXORPS       X15, X15, X15
	TESTQ        CX, CX
	JZ           begin
	VBROADCASTSS rowSum_zero(DI), Y15

begin:
	MOVQ R9, DX
	MOVQ R10, AX

zero8:
	SUBQ    $32, DX
	JLT     zero1
	VMOVUPS Y15, (AX)
	ADDQ    $32, AX
	JMP     zero8

zero1:
	ADDQ $32, DX
	JZ   zeroed

zeroes:
	VMOVSS X15, (AX)
	ADDQ   $4, AX
	SUBQ   $4, DX
	JNZ    zeroes

zeroed:
	TESTQ CX, CX
	JZ    next

lookup:
	MOVQ    rowSum_ahead(DI), R13
	LEAQ    (BX)(R13*4), R13
	MOVQ    last-8(SP), R14
	CMPQ    R13, R14
	CMOVQHI R14, R13
	MOVLQSX (R13), R13
	LOOKUP(R13)
	ASK(ask)

	MOVLQSX      (BX), R12
	ADDQ         $4, BX
	LOOKUP(R12)
	MOVQ         factor-16(SP), R13
	VBROADCASTSS (R13), Y14
	ADDQ         $4, R13
	MOVQ         R13, factor-16(SP)
	MOVQ         R9, DX
	MOVQ         R10, AX

add16:
	SUBQ    $64, DX
	JLT     add16end
	VMULPS  (R12), Y14, Y0
	VMULPS  32(R12), Y14, Y1
	VADDPS  (AX), Y0, Y0
	VADDPS  32(AX), Y1, Y1
	VMOVUPS Y0, (AX)
	VMOVUPS Y1, 32(AX)
	ADDQ    $64, R12
	ADDQ    $64, AX
	JMP     add16

add16end:
	ADDQ $64, DX

add8:
	SUBQ    $32, DX
	JLT     add1
	VMULPS  (R12), Y14, Y0
	VADDPS  (AX), Y0, Y0
	VMOVUPS Y0, (AX)
	ADDQ    $32, R12
	ADDQ    $32, AX
	JMP     add8

add1:
	ADDQ $32, DX
	JZ   added

adds:
	VMULSS (R12), X14, X0
	VADDSS (AX), X0, X0
	VMOVSS X0, (AX)
	ADDQ   $4, R12
	ADDQ   $4, AX
	SUBQ   $4, DX
	JNZ    adds

added:
	DECQ CX
	JNZ  lookup

next:
	MOVQ rowSum_dstStride(DI), DX
	LEAQ (R10)(DX*4), R10
	JMP  segment

done:
	VZEROUPPER
	RET

// func prefetchRows(rows []float32, stride int, slots []int32, bytes int)
// for each slot: prefetch the first bytes of rows[slot*stride:].
TEXT ·prefetchRows(SB), NOSPLIT, $0-64
	MOVQ rows_base+0(FP), SI
	MOVQ stride+24(FP), R8
	SHLQ $2, R8
	MOVQ slots_base+32(FP), BX
	MOVQ slots_len+40(FP), CX
	MOVQ bytes+56(FP), R9

slot:
	SUBQ    $1, CX
	JLT     done
	MOVLQSX (BX), R13
	ADDQ    $4, BX
	IMULQ   R8, R13
	ADDQ    SI, R13
	ASK(ask)
	JMP     slot

done:
	RET

// func xorAVX2(dst, a, b []float32)
// for i { dst[i] = a[i] XOR b[i] }
TEXT ·xorAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX

loop32:
	SUBQ    $32, CX
	JLT     below32
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VXORPS  (DX), Y0, Y0
	VXORPS  32(DX), Y1, Y1
	VXORPS  64(DX), Y2, Y2
	VXORPS  96(DX), Y3, Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ    $128, SI
	ADDQ    $128, DX
	ADDQ    $128, DI
	JMP     loop32

below32:
	ADDQ $32, CX

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMOVUPS (SI), Y0
	VXORPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	JMP     loop8

below8:
	ADDQ $8, CX
	JZ   done

loop1:
	MOVL (SI), AX
	XORL (DX), AX
	MOVL AX, (DI)
	ADDQ $4, SI
	ADDQ $4, DX
	ADDQ $4, DI
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func xorRowsAVX2(x *rowXor)
// for i < rows { dst row i, or a row ia[i] = a row ia[i] XOR b row ib[i] }
TEXT ·xorRowsAVX2(SB), NOSPLIT, $8-8
	MOVQ x+0(FP), DI
	MOVQ rowXor_a(DI), SI
	MOVQ rowXor_aBytes(DI), R8
	MOVQ rowXor_b(DI), DX
	MOVQ rowXor_d(DI), R9
	SHLQ $2, R9
	MOVQ rowXor_dst(DI), R10
	MOVQ rowXor_ia(DI), BX
	MOVQ (rowXor_ia+8)(DI), R11
	LEAQ -4(BX)(R11*4), R11
	MOVQ R11, last-8(SP)
	MOVQ rowXor_ib(DI), CX
	SUBQ BX, CX
	MOVQ rowXor_ahead(DI), R11
	LEAQ (BX)(R11*4), R11

row:
	SUBQ    $1, rowXor_rows(DI)
	JLT     done
	CMPQ    R11, last-8(SP)
	CMOVQHI last-8(SP), R11
	MOVLQSX (R11), R13
	IMULQ   R8, R13
	ADDQ    SI, R13
	ASK(aska)
	MOVLQSX (R11)(CX*1), R13
	IMULQ   rowXor_bBytes(DI), R13
	ADDQ    DX, R13
	ASK(askb)
	ADDQ    $4, R11

	MOVLQSX (BX), AX
	IMULQ   R8, AX
	ADDQ    SI, AX
	MOVLQSX (BX)(CX*1), R13
	IMULQ   rowXor_bBytes(DI), R13
	ADDQ    DX, R13
	ADDQ    $4, BX
	MOVQ    R10, R14
	CMPQ    rowXor_into(DI), $0
	CMOVQNE AX, R14
	MOVQ    R9, R12

xor128:
	SUBQ    $128, R12
	JLT     below128
	VMOVUPS (AX), Y0
	VMOVUPS 32(AX), Y1
	VMOVUPS 64(AX), Y2
	VMOVUPS 96(AX), Y3
	VXORPS  (R13), Y0, Y0
	VXORPS  32(R13), Y1, Y1
	VXORPS  64(R13), Y2, Y2
	VXORPS  96(R13), Y3, Y3
	VMOVUPS Y0, (R14)
	VMOVUPS Y1, 32(R14)
	VMOVUPS Y2, 64(R14)
	VMOVUPS Y3, 96(R14)
	ADDQ    $128, AX
	ADDQ    $128, R13
	ADDQ    $128, R14
	JMP     xor128

below128:
	ADDQ $128, R12
	JZ   next

xor32:
	SUBQ    $32, R12
	JLT     below32
	VMOVUPS (AX), Y0
	VXORPS  (R13), Y0, Y0
	VMOVUPS Y0, (R14)
	ADDQ    $32, AX
	ADDQ    $32, R13
	ADDQ    $32, R14
	JMP     xor32

below32:
	ADDQ $32, R12
	JZ   next

xor4:
	VMOVSS (AX), X0
	VMOVSS (R13), X1
	VXORPS X1, X0, X0
	VMOVSS X0, (R14)
	ADDQ   $4, AX
	ADDQ   $4, R13
	ADDQ   $4, R14
	SUBQ   $4, R12
	JNZ    xor4

next:
	ADDQ rowXor_dstBytes(DI), R10
	JMP  row

done:
	VZEROUPPER
	RET
