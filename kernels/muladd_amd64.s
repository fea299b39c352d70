#include "textflag.h"

// func mulAddAVX2(dst, a, b, c []float32)
// for i { dst[i] = a[i] * b[i] + c[i] }
// If b is one float, its vector is read again and again; without c, one of -0.0, which changes no
// sum.
TEXT ·mulAddAVX2(SB), NOSPLIT, $64-96
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX
	MOVQ c_base+72(FP), BX
	MOVQ $32, R8            // step of b
	MOVQ $32, R9            // step of c
	CMPQ b_len+56(FP), $1
	JNE  vectorB
	VBROADCASTSS (DX), Y0
	VMOVUPS      Y0, one-64(SP)
	LEAQ         one-64(SP), DX
	XORQ         R8, R8

vectorB:
	CMPQ c_len+80(FP), $0
	JNE  loop8
	VPCMPEQD Y1, Y1, Y1
	VPSLLD   $31, Y1, Y1
	VMOVUPS  Y1, none-32(SP)
	LEAQ     none-32(SP), BX
	XORQ     R9, R9

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMOVUPS (SI), Y0
	VMULPS  (DX), Y0, Y0
	VADDPS  (BX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	ADDQ    R8, DX
	ADDQ    R9, BX
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	SHLQ       $5, CX
	LEAQ       ·tailMasks(SB), R13
	VMOVUPS    (R13)(CX*1), Y15
	VMASKMOVPS (SI), Y15, Y0
	VMASKMOVPS (DX), Y15, Y1
	VMASKMOVPS (BX), Y15, Y2
	VMULPS     Y1, Y0, Y0
	VADDPS     Y2, Y0, Y0
	VMASKMOVPS Y0, Y15, (DI)

done:
	VZEROUPPER
	RET
