#include "textflag.h"

// MASK loads the mask of the first CX < 8 lanes to Y15; it uses R12, R13.
#define MASK \
	MOVQ    CX, R12; \
	SHLQ    $5, R12; \
	LEAQ    ·tailMasks(SB), R13; \
	VMOVUPS (R13)(R12*1), Y15

// func packDots(out, c unsafe.Pointer, f, ld int)
// n := 0
// for i := 1; i < f; i++ { for j < i { out[n] = c[i*ld+j]; n++ } }
// A row's last vector may spill into the next row, which is written after it, but
// not behind out.
TEXT ·packDots(SB), NOSPLIT, $0-32
	MOVQ  out+0(FP), DI
	MOVQ  c+8(FP), SI
	MOVQ  f+16(FP), R8
	MOVQ  ld+24(FP), R9
	SHLQ  $2, R9
	MOVQ  R8, R11
	DECQ  R11
	IMULQ R8, R11
	SHRQ  $1, R11        // floats left of out
	XORQ  R10, R10

row:
	INCQ R10
	CMPQ R10, R8
	JGE  done
	ADDQ R9, SI
	MOVQ SI, AX
	MOVQ R10, CX

vector:
	CMPQ    R11, $8
	JLT     masked
	VMOVUPS (AX), Y0
	VMOVUPS Y0, (DI)
	CMPQ    CX, $8
	JLE     last
	ADDQ    $32, AX
	ADDQ    $32, DI
	SUBQ    $8, R11
	SUBQ    $8, CX
	JMP     vector

masked:
	MASK
	VMOVUPS    (AX), Y0
	VMASKMOVPS Y0, Y15, (DI)

last:
	LEAQ (DI)(CX*4), DI
	SUBQ CX, R11
	JMP  row

done:
	VZEROUPPER
	RET

// func unpackDots(s, dots unsafe.Pointer, f, ld int)
// n := 0
// for i < f { for j < ld { s[i*ld+j] = j < i ? dots[n+j] : 0 }; n += i }
// ld is a multiple of 8.
TEXT ·unpackDots(SB), NOSPLIT, $0-32
	MOVQ   s+0(FP), DI
	MOVQ   dots+8(FP), SI
	MOVQ   f+16(FP), R8
	MOVQ   ld+24(FP), R9
	SHRQ   $3, R9
	XORQ   R10, R10
	VXORPS Y14, Y14, Y14

row:
	MOVQ R10, CX
	MOVQ R9, DX

vector:
	CMPQ    CX, $8
	JLT     part
	VMOVUPS (SI), Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	DECQ    DX
	JMP     vector

part:
	MASK
	VMASKMOVPS (SI), Y15, Y0
	VMOVUPS    Y0, (DI)
	LEAQ       (SI)(CX*4), SI

zeros:
	ADDQ    $32, DI
	DECQ    DX
	JZ      next
	VMOVUPS Y14, (DI)
	JMP     zeros

next:
	INCQ R10
	CMPQ R10, R8
	JLT  row
	VZEROUPPER
	RET
