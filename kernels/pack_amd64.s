#include "textflag.h"

// func copyRowsAVX2(dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, rows, vecs int, tail *[8]int32, ahead uintptr)
// for r < rows:
//	for v < vecs { dst[r][8v:8v+8] = src[r][8v:8v+8] }
//	if tail != nil { dst[r][8 vecs + l] = tail[l] < 0 ? src[r][8 vecs + l] : 0, l < 8 }
// Rows are too far apart for the CPU's own prefetcher: the bytes at a distance of ahead are prefetched.
TEXT ·copyRowsAVX2(SB), NOSPLIT, $0-64
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  dstBytes+16(FP), R8
	MOVQ  srcBytes+24(FP), R9
	MOVQ  rows+32(FP), CX
	MOVQ  vecs+40(FP), R10
	MOVQ  ahead+56(FP), R12
	MOVQ  tail+48(FP), R11
	TESTQ R11, R11
	JZ    next
	VMOVUPS (R11), Y1

next:
	TESTQ CX, CX
	JZ    done
	MOVQ  SI, AX
	MOVQ  DI, BX
	MOVQ  R10, DX

four:
	SUBQ       $4, DX
	JLT        below4
	PREFETCHT0 (AX)(R12*1)
	PREFETCHT0 64(AX)(R12*1)
	VMOVUPS    (AX), Y2
	VMOVUPS    32(AX), Y3
	VMOVUPS    64(AX), Y4
	VMOVUPS    96(AX), Y5
	VMOVUPS    Y2, (BX)
	VMOVUPS    Y3, 32(BX)
	VMOVUPS    Y4, 64(BX)
	VMOVUPS    Y5, 96(BX)
	ADDQ       $128, AX
	ADDQ       $128, BX
	JMP        four

below4:
	TESTQ      $2, DX
	JZ         below2
	PREFETCHT0 (AX)(R12*1)
	VMOVUPS    (AX), Y2
	VMOVUPS    32(AX), Y3
	VMOVUPS    Y2, (BX)
	VMOVUPS    Y3, 32(BX)
	ADDQ       $64, AX
	ADDQ       $64, BX

below2:
	TESTQ      $1, DX
	JZ         rest
	PREFETCHT0 (AX)(R12*1)
	VMOVUPS    (AX), Y0
	VMOVUPS    Y0, (BX)
	ADDQ       $32, AX
	ADDQ       $32, BX

rest:
	TESTQ R11, R11
	JZ    row
	VMASKMOVPS (AX), Y1, Y0
	VMOVUPS    Y0, (BX)

row:
	ADDQ R8, DI
	ADDQ R9, SI
	DECQ CX
	JMP  next

done:
	VZEROUPPER
	RET

// func transpose8AVX2(dst, src unsafe.Pointer, dstBytes, srcBytes uintptr, blocks int)
// for k < 8 blocks { for j < 8 { dst[k][j] = src[j][k] } }
TEXT ·transpose8AVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ dstBytes+16(FP), R8
	MOVQ srcBytes+24(FP), R9
	MOVQ blocks+32(FP), CX
	LEAQ (R9)(R9*2), R10
	LEAQ (R8)(R8*2), R11

block:
	// Rows 0..3 in the low halves, rows 4..7 in the high halves.
	LEAQ        (SI)(R9*4), BX
	VMOVUPS     (SI), X0
	VINSERTF128 $1, (BX), Y0, Y0
	VMOVUPS     (SI)(R9*1), X1
	VINSERTF128 $1, (BX)(R9*1), Y1, Y1
	VMOVUPS     (SI)(R9*2), X2
	VINSERTF128 $1, (BX)(R9*2), Y2, Y2
	VMOVUPS     (SI)(R10*1), X3
	VINSERTF128 $1, (BX)(R10*1), Y3, Y3
	VMOVUPS     16(SI), X4
	VINSERTF128 $1, 16(BX), Y4, Y4
	VMOVUPS     16(SI)(R9*1), X5
	VINSERTF128 $1, 16(BX)(R9*1), Y5, Y5
	VMOVUPS     16(SI)(R9*2), X6
	VINSERTF128 $1, 16(BX)(R9*2), Y6, Y6
	VMOVUPS     16(SI)(R10*1), X7
	VINSERTF128 $1, 16(BX)(R10*1), Y7, Y7

	// 4x4 transposes in each half.
	VUNPCKLPS Y1, Y0, Y8
	VUNPCKHPS Y1, Y0, Y9
	VUNPCKLPS Y3, Y2, Y10
	VUNPCKHPS Y3, Y2, Y11
	VUNPCKLPD Y10, Y8, Y0
	VUNPCKHPD Y10, Y8, Y1
	VUNPCKLPD Y11, Y9, Y2
	VUNPCKHPD Y11, Y9, Y3
	VUNPCKLPS Y5, Y4, Y8
	VUNPCKHPS Y5, Y4, Y9
	VUNPCKLPS Y7, Y6, Y10
	VUNPCKHPS Y7, Y6, Y11
	VUNPCKLPD Y10, Y8, Y4
	VUNPCKHPD Y10, Y8, Y5
	VUNPCKLPD Y11, Y9, Y6
	VUNPCKHPD Y11, Y9, Y7

	LEAQ    (DI)(R8*4), BX
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, (DI)(R8*1)
	VMOVUPS Y2, (DI)(R8*2)
	VMOVUPS Y3, (DI)(R11*1)
	VMOVUPS Y4, (BX)
	VMOVUPS Y5, (BX)(R8*1)
	VMOVUPS Y6, (BX)(R8*2)
	VMOVUPS Y7, (BX)(R11*1)
	LEAQ    (DI)(R8*8), DI
	ADDQ    $32, SI
	DECQ    CX
	JNZ     block
	VZEROUPPER
	RET

// func addRowsAVX2(sum, src unsafe.Pointer, srcBytes uintptr, rows, vecs int)
// for v < vecs { for r < rows ascending { sum[8v:8v+8] += src[r][8v:8v+8] } }, 8, 4 or 1 vectors at a time.
TEXT ·addRowsAVX2(SB), NOSPLIT, $0-40
	MOVQ sum+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ srcBytes+16(FP), R9
	MOVQ vecs+32(FP), DX
	LEAQ (R9*8), R12

eight:
	SUBQ    $8, DX
	JLT     fewer
	MOVQ    rows+24(FP), CX
	MOVQ    SI, AX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

row8:
	PREFETCHT0 (AX)(R12*1)
	PREFETCHT0 64(AX)(R12*1)
	PREFETCHT0 128(AX)(R12*1)
	PREFETCHT0 192(AX)(R12*1)
	VADDPS     (AX), Y0, Y0
	VADDPS     32(AX), Y1, Y1
	VADDPS     64(AX), Y2, Y2
	VADDPS     96(AX), Y3, Y3
	VADDPS     128(AX), Y4, Y4
	VADDPS     160(AX), Y5, Y5
	VADDPS     192(AX), Y6, Y6
	VADDPS     224(AX), Y7, Y7
	ADDQ       R9, AX
	DECQ       CX
	JNZ        row8
	VMOVUPS    Y0, (DI)
	VMOVUPS    Y1, 32(DI)
	VMOVUPS    Y2, 64(DI)
	VMOVUPS    Y3, 96(DI)
	VMOVUPS    Y4, 128(DI)
	VMOVUPS    Y5, 160(DI)
	VMOVUPS    Y6, 192(DI)
	VMOVUPS    Y7, 224(DI)
	ADDQ       $256, DI
	ADDQ       $256, SI
	JMP        eight

fewer:
	ADDQ $8, DX

four:
	SUBQ    $4, DX
	JLT     ones
	MOVQ    rows+24(FP), CX
	MOVQ    SI, AX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3

row4:
	PREFETCHT0 (AX)(R12*1)
	PREFETCHT0 64(AX)(R12*1)
	VADDPS     (AX), Y0, Y0
	VADDPS     32(AX), Y1, Y1
	VADDPS     64(AX), Y2, Y2
	VADDPS     96(AX), Y3, Y3
	ADDQ       R9, AX
	DECQ       CX
	JNZ        row4
	VMOVUPS    Y0, (DI)
	VMOVUPS    Y1, 32(DI)
	VMOVUPS    Y2, 64(DI)
	VMOVUPS    Y3, 96(DI)
	ADDQ       $128, DI
	ADDQ       $128, SI
	JMP        four

ones:
	ADDQ $4, DX

one:
	TESTQ   DX, DX
	JZ      done
	MOVQ    rows+24(FP), CX
	MOVQ    SI, AX
	VMOVUPS (DI), Y0

row1:
	VADDPS  (AX), Y0, Y0
	ADDQ    R9, AX
	DECQ    CX
	JNZ     row1
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	DECQ    DX
	JMP     one

done:
	VZEROUPPER
	RET
