#include "go_asm.h"
#include "textflag.h"

// Element by element, 8 at a time; the last elements use masked loads and stores. No
// multiplication is fused with an addition.

// LEFT loads the mask of the CX floats that are left to Y15; it uses AX.
#define LEFT \
	MOVQ    CX, AX; \
	SHLQ    $5, AX; \
	LEAQ    ·tailMasks(SB), DX; \
	VMOVUPS (DX)(AX*1), Y15

#define WEIGHTS \
	MOVQ w_base+0(FP), DI; \
	MOVQ s_base+24(FP), SI; \
	MOVQ v_base+48(FP), R8; \
	MOVQ g_base+72(FP), BX; \
	MOVQ g_len+80(FP), CX; \
	MOVQ o+96(FP), R9

// EACH4 runs STEP on 8 elements of g, w, s and v at a time, in Y0 to Y3, and stores w, s and v.
// The registers are those of WEIGHTS.
#define EACH4(STEP) \
loop8: \
	SUBQ    $8, CX; \
	JLT     below8; \
	VMOVUPS (BX), Y0; \
	VMOVUPS (DI), Y1; \
	VMOVUPS (SI), Y2; \
	VMOVUPS (R8), Y3; \
	STEP; \
	VMOVUPS Y1, (DI); \
	VMOVUPS Y2, (SI); \
	VMOVUPS Y3, (R8); \
	ADDQ    $32, BX; \
	ADDQ    $32, DI; \
	ADDQ    $32, SI; \
	ADDQ    $32, R8; \
	JMP     loop8; \
below8: \
	ADDQ       $8, CX; \
	JZ         done; \
	LEFT; \
	VMASKMOVPS (BX), Y15, Y0; \
	VMASKMOVPS (DI), Y15, Y1; \
	VMASKMOVPS (SI), Y15, Y2; \
	VMASKMOVPS (R8), Y15, Y3; \
	STEP; \
	VMASKMOVPS Y1, Y15, (DI); \
	VMASKMOVPS Y2, Y15, (SI); \
	VMASKMOVPS Y3, Y15, (R8); \
done:

// func addAVX2(dst, src []float32)
// for i { dst[i] += src[i] }
TEXT ·addAVX2(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), CX

loop32:
	SUBQ    $32, CX
	JLT     below32
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VADDPS  (SI), Y0, Y0
	VADDPS  32(SI), Y1, Y1
	VADDPS  64(SI), Y2, Y2
	VADDPS  96(SI), Y3, Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	JMP     loop32

below32:
	ADDQ $32, CX

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMOVUPS (DI), Y0
	VADDPS  (SI), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	LEFT
	VMASKMOVPS (DI), Y15, Y0
	VMASKMOVPS (SI), Y15, Y1
	VADDPS     Y1, Y0, Y0
	VMASKMOVPS Y0, Y15, (DI)

done:
	VZEROUPPER
	RET

// func sumAVX2(dst []float32, from [][]float32, off int)
// for i { dst[i] = +0.0; for k { dst[i] += from[k][off+i] } }
TEXT ·sumAVX2(SB), NOSPLIT, $0-56
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ from_base+24(FP), R8
	MOVQ from_len+32(FP), R9
	MOVQ off+48(FP), R10
	SHLQ $2, R10

loop32:
	SUBQ   $32, CX
	JLT    below32
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	MOVQ   R8, R11
	MOVQ   R9, R12

from32:
	MOVQ    (R11), SI
	VADDPS  (SI)(R10*1), Y0, Y0
	VADDPS  32(SI)(R10*1), Y1, Y1
	VADDPS  64(SI)(R10*1), Y2, Y2
	VADDPS  96(SI)(R10*1), Y3, Y3
	ADDQ    $24, R11
	DECQ    R12
	JNZ     from32
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, R10
	JMP     loop32

below32:
	ADDQ $32, CX

loop8:
	SUBQ   $8, CX
	JLT    below8
	VXORPS Y0, Y0, Y0
	MOVQ   R8, R11
	MOVQ   R9, R12

from8:
	MOVQ    (R11), SI
	VADDPS  (SI)(R10*1), Y0, Y0
	ADDQ    $24, R11
	DECQ    R12
	JNZ     from8
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, R10
	JMP     loop8

below8:
	ADDQ   $8, CX
	JZ     done
	LEFT
	VXORPS Y0, Y0, Y0

from1:
	MOVQ       (R8), SI
	VMASKMOVPS (SI)(R10*1), Y15, Y1
	VADDPS     Y1, Y0, Y0
	ADDQ       $24, R8
	DECQ       R9
	JNZ        from1
	VMASKMOVPS Y0, Y15, (DI)

done:
	VZEROUPPER
	RET

// func decayAVX2(g, w []float32, by float32)
// for i { g[i] += by*w[i] }
TEXT ·decayAVX2(SB), NOSPLIT, $0-52
	MOVQ         g_base+0(FP), DI
	MOVQ         w_base+24(FP), SI
	MOVQ         w_len+32(FP), CX
	VBROADCASTSS by+48(FP), Y8

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMULPS  (SI), Y8, Y1
	VMOVUPS (DI), Y0
	VADDPS  Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	LEFT
	VMASKMOVPS (DI), Y15, Y0
	VMASKMOVPS (SI), Y15, Y1
	VMULPS     Y1, Y8, Y1
	VADDPS     Y1, Y0, Y0
	VMASKMOVPS Y0, Y15, (DI)

done:
	VZEROUPPER
	RET

// func shrinkAVX2(w []float32, by float32)
// for i { w[i] = by*w[i] }
TEXT ·shrinkAVX2(SB), NOSPLIT, $0-28
	MOVQ         w_base+0(FP), DI
	MOVQ         w_len+8(FP), CX
	VBROADCASTSS by+24(FP), Y8

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMULPS  (DI), Y8, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	LEFT
	VMASKMOVPS (DI), Y15, Y0
	VMULPS     Y0, Y8, Y0
	VMASKMOVPS Y0, Y15, (DI)

done:
	VZEROUPPER
	RET

// SGD: Y0 the gradients, Y1 the weights, Y8 LR.
#define SGDSTEP \
	VMULPS Y0, Y8, Y0; \
	VSUBPS Y0, Y1, Y1

// func sgdAVX2(w, s, v, g []float32, o *Optimizer)
// for i { w[i] -= LR*g[i] }
TEXT ·sgdAVX2(SB), NOSPLIT, $0-104
	WEIGHTS
	VBROADCASTSS Optimizer_LR(R9), Y8

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMOVUPS (BX), Y0
	VMOVUPS (DI), Y1
	SGDSTEP
	VMOVUPS Y1, (DI)
	ADDQ    $32, BX
	ADDQ    $32, DI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	LEFT
	VMASKMOVPS (BX), Y15, Y0
	VMASKMOVPS (DI), Y15, Y1
	SGDSTEP
	VMASKMOVPS Y1, Y15, (DI)

done:
	VZEROUPPER
	RET

// Momentum: Y2 the moments, Y9 Momentum.
#define MOMENTUMSTEP \
	VMULPS Y2, Y9, Y2; \
	VADDPS Y0, Y2, Y2; \
	VMULPS Y2, Y8, Y3; \
	VSUBPS Y3, Y1, Y1

// func momentumAVX2(w, s, v, g []float32, o *Optimizer)
// for i { s[i] = Momentum*s[i] + g[i]; w[i] -= LR*s[i] }
TEXT ·momentumAVX2(SB), NOSPLIT, $0-104
	WEIGHTS
	VBROADCASTSS Optimizer_LR(R9), Y8
	VBROADCASTSS Optimizer_Momentum(R9), Y9

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMOVUPS (BX), Y0
	VMOVUPS (DI), Y1
	VMOVUPS (SI), Y2
	MOMENTUMSTEP
	VMOVUPS Y1, (DI)
	VMOVUPS Y2, (SI)
	ADDQ    $32, BX
	ADDQ    $32, DI
	ADDQ    $32, SI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	LEFT
	VMASKMOVPS (BX), Y15, Y0
	VMASKMOVPS (DI), Y15, Y1
	VMASKMOVPS (SI), Y15, Y2
	MOMENTUMSTEP
	VMASKMOVPS Y1, Y15, (DI)
	VMASKMOVPS Y2, Y15, (SI)

done:
	VZEROUPPER
	RET

// Adagrad: Y2 the sums of squares, Y9 Eps.
#define ADAGRADSTEP \
	VMULPS  Y0, Y0, Y3; \
	VADDPS  Y3, Y2, Y2; \
	VSQRTPS Y2, Y3; \
	VADDPS  Y9, Y3, Y3; \
	VMULPS  Y0, Y8, Y0; \
	VDIVPS  Y3, Y0, Y0; \
	VSUBPS  Y0, Y1, Y1

// func adagradAVX2(w, s, v, g []float32, o *Optimizer)
// for i { s[i] += g[i]*g[i]; w[i] -= LR*g[i] / (sqrt(s[i]) + Eps) }
TEXT ·adagradAVX2(SB), NOSPLIT, $0-104
	WEIGHTS
	VBROADCASTSS Optimizer_LR(R9), Y8
	VBROADCASTSS Optimizer_Eps(R9), Y9

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMOVUPS (BX), Y0
	VMOVUPS (DI), Y1
	VMOVUPS (SI), Y2
	ADAGRADSTEP
	VMOVUPS Y1, (DI)
	VMOVUPS Y2, (SI)
	ADDQ    $32, BX
	ADDQ    $32, DI
	ADDQ    $32, SI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	LEFT
	VMASKMOVPS (BX), Y15, Y0
	VMASKMOVPS (DI), Y15, Y1
	VMASKMOVPS (SI), Y15, Y2
	ADAGRADSTEP
	VMASKMOVPS Y1, Y15, (DI)
	VMASKMOVPS Y2, Y15, (SI)

done:
	VZEROUPPER
	RET

// func rowwiseAVX2(w, s, v, g []float32, o *Optimizer)
// lane l of 8 sums g[k]*g[k], k mod 8 = l ascending
// s[0] += (((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7))) / len(g)
// for i { w[i] -= LR*g[i] / (sqrt(s[0]) + Eps) }
TEXT ·rowwiseAVX2(SB), NOSPLIT, $0-104
	WEIGHTS
	VXORPS X2, X2, X2
	MOVQ   BX, R10

square8:
	SUBQ    $8, CX
	JLT     squareLeft
	VMOVUPS (R10), Y0
	VMULPS  Y0, Y0, Y0
	VADDPS  Y0, Y2, Y2
	ADDQ    $32, R10
	JMP     square8

squareLeft:
	// A lane that is not left adds +0.0 to a sum of squares: no change.
	ADDQ       $8, CX
	JZ         reduce
	LEFT
	VMASKMOVPS (R10), Y15, Y0
	VMULPS     Y0, Y0, Y0
	VADDPS     Y0, Y2, Y2

reduce:
	VEXTRACTF128 $1, Y2, X3
	VADDPS       X3, X2, X2    // l0+l4, l1+l5, l2+l6, l3+l7
	VMOVHLPS     X2, X2, X3
	VADDPS       X3, X2, X2    // (l0+l4)+(l2+l6), (l1+l5)+(l3+l7)
	VMOVSHDUP    X2, X3
	VADDSS       X3, X2, X2
	MOVQ         g_len+80(FP), CX
	VCVTSI2SSQ   CX, X3, X3
	VDIVSS       X3, X2, X2
	VADDSS       (SI), X2, X2
	VMOVSS       X2, (SI)
	VSQRTSS      X2, X2, X2
	VADDSS       Optimizer_Eps(R9), X2, X2
	VBROADCASTSS X2, Y2
	VBROADCASTSS Optimizer_LR(R9), Y8

loop8:
	SUBQ    $8, CX
	JLT     below8
	VMULPS  (BX), Y8, Y0
	VDIVPS  Y2, Y0, Y0
	VMOVUPS (DI), Y1
	VSUBPS  Y0, Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, BX
	ADDQ    $32, DI
	JMP     loop8

below8:
	ADDQ       $8, CX
	JZ         done
	VMASKMOVPS (BX), Y15, Y0
	VMULPS     Y0, Y8, Y0
	VDIVPS     Y2, Y0, Y0
	VMASKMOVPS (DI), Y15, Y1
	VSUBPS     Y0, Y1, Y1
	VMASKMOVPS Y1, Y15, (DI)

done:
	VZEROUPPER
	RET

// Adam: Y2 and Y3 the moments, Y8 StepSize, Y9 Eps, Y10 Beta1, Y11 C1, Y12 Beta2,
// Y13 C2, Y14 BiasSqrt.
#define ADAMSTEP \
	VMULPS  Y2, Y10, Y2; \
	VMULPS  Y0, Y11, Y4; \
	VADDPS  Y4, Y2, Y2; \
	VMULPS  Y0, Y0, Y0; \
	VMULPS  Y0, Y13, Y0; \
	VMULPS  Y3, Y12, Y3; \
	VADDPS  Y0, Y3, Y3; \
	VSQRTPS Y3, Y4; \
	VDIVPS  Y14, Y4, Y4; \
	VADDPS  Y9, Y4, Y4; \
	VMULPS  Y2, Y8, Y0; \
	VDIVPS  Y4, Y0, Y0; \
	VSUBPS  Y0, Y1, Y1

// func adamAVX2(w, s, v, g []float32, o *Optimizer)
// for i {
//	s[i] = Beta1*s[i] + C1*g[i]
//	v[i] = Beta2*v[i] + C2*(g[i]*g[i])
//	w[i] -= StepSize*s[i] / (sqrt(v[i])/BiasSqrt + Eps)
// }
TEXT ·adamAVX2(SB), NOSPLIT, $0-104
	WEIGHTS
	VBROADCASTSS Optimizer_StepSize(R9), Y8
	VBROADCASTSS Optimizer_Eps(R9), Y9
	VBROADCASTSS Optimizer_Beta1(R9), Y10
	VBROADCASTSS Optimizer_C1(R9), Y11
	VBROADCASTSS Optimizer_Beta2(R9), Y12
	VBROADCASTSS Optimizer_C2(R9), Y13
	VBROADCASTSS Optimizer_BiasSqrt(R9), Y14
	EACH4(ADAMSTEP)
	VZEROUPPER
	RET

// FTRLSTEP updates weights Y1, z Y2 and n Y3 with gradients Y0; Y8 LR, Y9 L1, Y10 Beta, Y11 L2,
// Y12 the sign bits, Y13 zeros. It changes Y4 to Y7.
#define FTRLSTEP \
	VMULPS    Y0, Y0, Y4; \
	VADDPS    Y4, Y3, Y4; \
	VSQRTPS   Y4, Y5; \
	VSQRTPS   Y3, Y6; \
	VSUBPS    Y6, Y5, Y6; \
	VDIVPS    Y8, Y6, Y6; \
	VMULPS    Y1, Y6, Y6; \
	VADDPS    Y0, Y2, Y2; \
	VSUBPS    Y6, Y2, Y2; \
	VMOVAPS   Y4, Y3; \
	VANDNPS   Y2, Y12, Y6; \
	VSUBPS    Y9, Y6, Y6; \
	VCMPPS    $0x12, Y13, Y6, Y7; \
	VANDNPS   Y6, Y12, Y6; \
	VANDPS    Y2, Y12, Y4; \
	VORPS     Y4, Y6, Y6; \
	VADDPS    Y5, Y10, Y5; \
	VDIVPS    Y8, Y5, Y5; \
	VADDPS    Y11, Y5, Y5; \
	VDIVPS    Y5, Y6, Y6; \
	VXORPS    Y12, Y6, Y6; \
	VANDNPS   Y6, Y7, Y1

// func ftrlAVX2(w, s, v, g []float32, o *Optimizer)
// for i {
//	n := v[i] + g[i]*g[i]
//	s[i] = (s[i] + g[i]) - (sqrt(n) - sqrt(v[i]))/LR*w[i]
//	v[i] = n
//	over := |s[i]| - L1
//	w[i] = over <= 0 ? +0.0 : -(over with the sign of s[i] / ((Beta + sqrt(n))/LR + L2))
// }
TEXT ·ftrlAVX2(SB), NOSPLIT, $0-104
	WEIGHTS
	VBROADCASTSS Optimizer_LR(R9), Y8
	VBROADCASTSS Optimizer_L1(R9), Y9
	VBROADCASTSS Optimizer_Beta(R9), Y10
	VBROADCASTSS Optimizer_L2(R9), Y11
	VPCMPEQD     Y12, Y12, Y12
	VPSLLD       $31, Y12, Y12
	VXORPS       Y13, Y13, Y13
	EACH4(FTRLSTEP)
	VZEROUPPER
	RET
