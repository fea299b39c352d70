#include "textflag.h"

// Loops over the columns of a row, eight at a time, the rest one by one. See vectorLoops.

// func addSquaresAVX2(dst, x, mean []float32)
// dst[j] += (x[j] - mean[j])^2
TEXT ·addSquaresAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ x_base+24(FP), SI
	MOVQ mean_base+48(FP), R8
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (SI)(AX*1), Y0
	VSUBPS (R8)(AX*1), Y0, Y0
	VMULPS Y0, Y0, Y0
	VADDPS (DI)(AX*1), Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (SI)(AX*1), X0
	VSUBSS (R8)(AX*1), X0, X0
	VMULSS X0, X0, X0
	VADDSS (DI)(AX*1), X0, X0
	VMOVSS X0, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func normalizeAVX2(y, x, mean, inv, gamma, beta []float32)
// y[j] = ((x[j]-mean[j])*inv[j])*gamma[j] + beta[j]
TEXT ·normalizeAVX2(SB), NOSPLIT, $0-144
	MOVQ y_base+0(FP), DI
	MOVQ y_len+8(FP), CX
	MOVQ x_base+24(FP), SI
	MOVQ mean_base+48(FP), R8
	MOVQ inv_base+72(FP), R9
	MOVQ gamma_base+96(FP), R10
	MOVQ beta_base+120(FP), R11
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (SI)(AX*1), Y0
	VSUBPS (R8)(AX*1), Y0, Y0
	VMULPS (R9)(AX*1), Y0, Y0
	VMULPS (R10)(AX*1), Y0, Y0
	VADDPS (R11)(AX*1), Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (SI)(AX*1), X0
	VSUBSS (R8)(AX*1), X0, X0
	VMULSS (R9)(AX*1), X0, X0
	VMULSS (R10)(AX*1), X0, X0
	VADDSS (R11)(AX*1), X0, X0
	VMOVSS X0, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func reluAVX2(y []float32)
// y[j] = y[j] < 0 ? +0.0 : y[j]
TEXT ·reluAVX2(SB), NOSPLIT, $0-24
	MOVQ y_base+0(FP), DI
	MOVQ y_len+8(FP), CX
	VXORPS Y1, Y1, Y1
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (DI)(AX*1), Y0
	VMAXPS Y0, Y1, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (DI)(AX*1), X0
	VMAXSS X0, X1, X0
	VMOVSS X0, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func addGradsAVX2(dgamma, dbeta, dy, x, mean, inv []float32)
// dbeta[j] += dy[j]; dgamma[j] += dy[j] * ((x[j]-mean[j])*inv[j])
TEXT ·addGradsAVX2(SB), NOSPLIT, $0-144
	MOVQ dgamma_base+0(FP), DI
	MOVQ dgamma_len+8(FP), CX
	MOVQ dbeta_base+24(FP), SI
	MOVQ dy_base+48(FP), R8
	MOVQ x_base+72(FP), R9
	MOVQ mean_base+96(FP), R10
	MOVQ inv_base+120(FP), R11
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (R9)(AX*1), Y0
	VSUBPS (R10)(AX*1), Y0, Y0
	VMULPS (R11)(AX*1), Y0, Y0
	VMOVUPS (R8)(AX*1), Y1
	VMULPS Y0, Y1, Y0
	VADDPS (DI)(AX*1), Y0, Y0
	VADDPS (SI)(AX*1), Y1, Y1
	VMOVUPS Y0, (DI)(AX*1)
	VMOVUPS Y1, (SI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (R9)(AX*1), X0
	VSUBSS (R10)(AX*1), X0, X0
	VMULSS (R11)(AX*1), X0, X0
	VMOVSS (R8)(AX*1), X1
	VMULSS X0, X1, X0
	VADDSS (DI)(AX*1), X0, X0
	VADDSS (SI)(AX*1), X1, X1
	VMOVSS X0, (DI)(AX*1)
	VMOVSS X1, (SI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func normalizeGradAVX2(dx, dy, x, mean, inv, a, b, c []float32)
// dx[j] = ((dy[j] - a[j]) - ((x[j]-mean[j])*inv[j])*b[j]) * c[j]
TEXT ·normalizeGradAVX2(SB), NOSPLIT, $0-192
	MOVQ dx_base+0(FP), DI
	MOVQ dx_len+8(FP), CX
	MOVQ dy_base+24(FP), SI
	MOVQ x_base+48(FP), R8
	MOVQ mean_base+72(FP), R9
	MOVQ inv_base+96(FP), R10
	MOVQ a_base+120(FP), R11
	MOVQ b_base+144(FP), R12
	MOVQ c_base+168(FP), R13
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (R8)(AX*1), Y0
	VSUBPS (R9)(AX*1), Y0, Y0
	VMULPS (R10)(AX*1), Y0, Y0
	VMULPS (R12)(AX*1), Y0, Y0
	VMOVUPS (SI)(AX*1), Y1
	VSUBPS (R11)(AX*1), Y1, Y1
	VSUBPS Y0, Y1, Y1
	VMULPS (R13)(AX*1), Y1, Y1
	VMOVUPS Y1, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (R8)(AX*1), X0
	VSUBSS (R9)(AX*1), X0, X0
	VMULSS (R10)(AX*1), X0, X0
	VMULSS (R12)(AX*1), X0, X0
	VMOVSS (SI)(AX*1), X1
	VSUBSS (R11)(AX*1), X1, X1
	VSUBSS X0, X1, X1
	VMULSS (R13)(AX*1), X1, X1
	VMOVSS X1, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func addBothAVX2(sum, squares, x []float32)
// sum[j] += x[j]; squares[j] += x[j]*x[j]
TEXT ·addBothAVX2(SB), NOSPLIT, $0-72
	MOVQ sum_base+0(FP), DI
	MOVQ sum_len+8(FP), CX
	MOVQ squares_base+24(FP), SI
	MOVQ x_base+48(FP), R8
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (R8)(AX*1), Y0
	VMULPS Y0, Y0, Y1
	VADDPS (DI)(AX*1), Y0, Y0
	VADDPS (SI)(AX*1), Y1, Y1
	VMOVUPS Y0, (DI)(AX*1)
	VMOVUPS Y1, (SI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (R8)(AX*1), X0
	VMULSS X0, X0, X1
	VADDSS (DI)(AX*1), X0, X0
	VADDSS (SI)(AX*1), X1, X1
	VMOVSS X0, (DI)(AX*1)
	VMOVSS X1, (SI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func addRestAVX2(dx, sum, x []float32, by float32)
// dx[j] += by * (sum[j] - x[j])
TEXT ·addRestAVX2(SB), NOSPLIT, $0-76
	MOVQ dx_base+0(FP), DI
	MOVQ dx_len+8(FP), CX
	MOVQ sum_base+24(FP), SI
	MOVQ x_base+48(FP), R8
	VBROADCASTSS by+72(FP), Y15
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (SI)(AX*1), Y0
	VSUBPS (R8)(AX*1), Y0, Y0
	VMULPS Y15, Y0, Y0
	VADDPS (DI)(AX*1), Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (SI)(AX*1), X0
	VSUBSS (R8)(AX*1), X0, X0
	VMULSS X15, X0, X0
	VADDSS (DI)(AX*1), X0, X0
	VMOVSS X0, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func scaleAVX2(dst, x []float32, by float32)
// dst[j] = x[j] * by
TEXT ·scaleAVX2(SB), NOSPLIT, $0-52
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ x_base+24(FP), SI
	VBROADCASTSS by+48(FP), Y15
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMULPS (SI)(AX*1), Y15, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMULSS (SI)(AX*1), X15, X0
	VMOVSS X0, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func addScaledAVX2(dst, x []float32, by float32)
// dst[j] += x[j] * by
TEXT ·addScaledAVX2(SB), NOSPLIT, $0-52
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ x_base+24(FP), SI
	VBROADCASTSS by+48(FP), Y15
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMULPS (SI)(AX*1), Y15, Y0
	VADDPS (DI)(AX*1), Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMULSS (SI)(AX*1), X15, X0
	VADDSS (DI)(AX*1), X0, X0
	VMOVSS X0, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET

// func keepAVX2(y, r []float32, least, by float32)
// y[j] = r[j] >= least ? y[j]*by : +0.0
TEXT ·keepAVX2(SB), NOSPLIT, $0-56
	MOVQ y_base+0(FP), DI
	MOVQ y_len+8(FP), CX
	MOVQ r_base+24(FP), SI
	VBROADCASTSS least+48(FP), Y15
	VBROADCASTSS by+52(FP), Y14
	XORQ AX, AX
	SUBQ $8, CX
	JLT  tail

loop8:
	VMOVUPS (SI)(AX*1), Y0
	VCMPPS $13, Y15, Y0, Y0
	VMULPS (DI)(AX*1), Y14, Y1
	VANDPS Y0, Y1, Y1
	VMOVUPS Y1, (DI)(AX*1)
	ADDQ $32, AX
	SUBQ $8, CX
	JGE  loop8

tail:
	ADDQ $8, CX
	JZ   done

loop1:
	VMOVSS (SI)(AX*1), X0
	VCMPSS $13, X15, X0, X0
	VMULSS (DI)(AX*1), X14, X1
	VANDPS X0, X1, X1
	VMOVSS X1, (DI)(AX*1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

done:
	VZEROUPPER
	RET
