#include "textflag.h"

// The dot interaction of one sample with AVX-512: f vectors, 17 to 28, of d floats, a multiple of 16. R10 is f, R8 the bytes of a vector.
// Z0.. are 16 rows of a block of 16 x 16 floats, or Z0 an operand that all FMAs of a step share.

#define PAIRS(a, b, lo, hi) \
	VUNPCKLPS b, a, lo; \
	VUNPCKHPS b, a, hi

#define QUADS(a, b, lo, hi) \
	VUNPCKLPD b, a, lo; \
	VUNPCKHPD b, a, hi

#define LANES(a, b, even, odd) \
	VSHUFF32X4 $0x88, b, a, even; \
	VSHUFF32X4 $0xDD, b, a, odd

// TRANSPOSE16 transposes the block in Z0 to Z15. It uses Z16 to Z31.
#define TRANSPOSE16 \
	PAIRS(Z0, Z1, Z16, Z17); \
	PAIRS(Z2, Z3, Z18, Z19); \
	PAIRS(Z4, Z5, Z20, Z21); \
	PAIRS(Z6, Z7, Z22, Z23); \
	PAIRS(Z8, Z9, Z24, Z25); \
	PAIRS(Z10, Z11, Z26, Z27); \
	PAIRS(Z12, Z13, Z28, Z29); \
	PAIRS(Z14, Z15, Z30, Z31); \
	QUADS(Z16, Z18, Z0, Z1); \
	QUADS(Z17, Z19, Z2, Z3); \
	QUADS(Z20, Z22, Z4, Z5); \
	QUADS(Z21, Z23, Z6, Z7); \
	QUADS(Z24, Z26, Z8, Z9); \
	QUADS(Z25, Z27, Z10, Z11); \
	QUADS(Z28, Z30, Z12, Z13); \
	QUADS(Z29, Z31, Z14, Z15); \
	LANES(Z0, Z4, Z16, Z20); \
	LANES(Z1, Z5, Z17, Z21); \
	LANES(Z2, Z6, Z18, Z22); \
	LANES(Z3, Z7, Z19, Z23); \
	LANES(Z8, Z12, Z24, Z28); \
	LANES(Z9, Z13, Z25, Z29); \
	LANES(Z10, Z14, Z26, Z30); \
	LANES(Z11, Z15, Z27, Z31); \
	LANES(Z16, Z24, Z0, Z8); \
	LANES(Z17, Z25, Z1, Z9); \
	LANES(Z18, Z26, Z2, Z10); \
	LANES(Z19, Z27, Z3, Z11); \
	LANES(Z20, Z28, Z4, Z12); \
	LANES(Z21, Z29, Z5, Z13); \
	LANES(Z22, Z30, Z6, Z14); \
	LANES(Z23, Z31, Z7, Z15)

// LOADROW loads a row at AX, and moves AX to the next one, which is the last one at most: R9.
#define LOADROW(z) \
	VMOVUPS (AX), z; \
	ADDQ    R8, AX; \
	CMPQ    AX, R9; \
	CMOVQHI R9, AX

#define LOAD16 \
	LOADROW(Z0); \
	LOADROW(Z1); \
	LOADROW(Z2); \
	LOADROW(Z3); \
	LOADROW(Z4); \
	LOADROW(Z5); \
	LOADROW(Z6); \
	LOADROW(Z7); \
	LOADROW(Z8); \
	LOADROW(Z9); \
	LOADROW(Z10); \
	LOADROW(Z11); \
	LOADROW(Z12); \
	LOADROW(Z13); \
	LOADROW(Z14); \
	LOADROW(Z15)

// STORE12 and STORE16 store rows of 128 bytes, from DI + at on.
#define STORE12(at) \
	VMOVUPS Z0, (at+0*128)(DI); \
	VMOVUPS Z1, (at+1*128)(DI); \
	VMOVUPS Z2, (at+2*128)(DI); \
	VMOVUPS Z3, (at+3*128)(DI); \
	VMOVUPS Z4, (at+4*128)(DI); \
	VMOVUPS Z5, (at+5*128)(DI); \
	VMOVUPS Z6, (at+6*128)(DI); \
	VMOVUPS Z7, (at+7*128)(DI); \
	VMOVUPS Z8, (at+8*128)(DI); \
	VMOVUPS Z9, (at+9*128)(DI); \
	VMOVUPS Z10, (at+10*128)(DI); \
	VMOVUPS Z11, (at+11*128)(DI)

#define STORE16(at) \
	STORE12(at); \
	VMOVUPS Z12, (at+12*128)(DI); \
	VMOVUPS Z13, (at+13*128)(DI); \
	VMOVUPS Z14, (at+14*128)(DI); \
	VMOVUPS Z15, (at+15*128)(DI)

// MERGE12 and MERGE16 combine rows with those in memory. One of both is zero.
#define MERGE12(at) \
	VPORD (at+0*128)(DI), Z0, Z0; \
	VPORD (at+1*128)(DI), Z1, Z1; \
	VPORD (at+2*128)(DI), Z2, Z2; \
	VPORD (at+3*128)(DI), Z3, Z3; \
	VPORD (at+4*128)(DI), Z4, Z4; \
	VPORD (at+5*128)(DI), Z5, Z5; \
	VPORD (at+6*128)(DI), Z6, Z6; \
	VPORD (at+7*128)(DI), Z7, Z7; \
	VPORD (at+8*128)(DI), Z8, Z8; \
	VPORD (at+9*128)(DI), Z9, Z9; \
	VPORD (at+10*128)(DI), Z10, Z10; \
	VPORD (at+11*128)(DI), Z11, Z11

#define MERGE16(at) \
	MERGE12(at); \
	VPORD (at+12*128)(DI), Z12, Z12; \
	VPORD (at+13*128)(DI), Z13, Z13; \
	VPORD (at+14*128)(DI), Z14, Z14; \
	VPORD (at+15*128)(DI), Z15, Z15

#define ZERO4(a, b, c, d) \
	VPXORD a, a, a; \
	VPXORD b, b, b; \
	VPXORD c, c, c; \
	VPXORD d, d, d

// MUL1 adds the product of the float at mem and Z0 to c. MUL2 adds the products with Z0 and Z1.
#define MUL1(mem, c) VFMADD231PS.BCST mem, Z0, c

#define MUL2(mem, c0, c1) \
	VBROADCASTSS mem, Z2; \
	VFMADD231PS  Z0, Z2, c0; \
	VFMADD231PS  Z1, Z2, c1

// OUT2 stores row i of the dots, at float i(i-1)/2 of DI. The floats behind it are those of the next row, which is stored later.
#define OUT2(i, lo, hi) \
	VMOVUPS lo, (2*i*(i-1))(DI); \
	VMOVAPS hi, Z3; \
	CMPQ    R10, $(i+1); \
	JEQ     last; \
	VMOVUPS hi, (2*i*(i-1)+64)(DI)

// func dotsAVX512(dots, x, t unsafe.Pointer, f, d int)
// t has room for (d, 32) floats.
// for i < f { for j < i { s := +0.0; for k < d ascending { s = fma(x[i][k], x[j][k], s) }; dots[i*(i-1)/2+j] = s } }
TEXT ·dotsAVX512(SB), NOSPLIT, $0-40
	MOVQ  x+8(FP), SI
	MOVQ  t+16(FP), DI
	MOVQ  f+24(FP), R10
	MOVQ  d+32(FP), R8
	MOVQ  R8, R11
	SHRQ  $4, R11
	SHLQ  $2, R8
	LEAQ  -1(R10), R9
	IMULQ R8, R9
	ADDQ  SI, R9

block: // t = xᵀ; columns from f on repeat the last vector
	MOVQ SI, AX
	LOAD16
	TRANSPOSE16
	STORE16(0)
	LOAD16
	TRANSPOSE16
	STORE16(64)
	ADDQ $64, SI
	ADDQ $64, R9
	ADDQ $(16*128), DI
	DECQ R11
	JNZ  block

	// Rows 1 to 16 have no dots from column 16 on.
	MOVQ t+16(FP), SI
	MOVQ d+32(FP), CX
	ZERO4(Z16, Z17, Z18, Z19)
	ZERO4(Z20, Z21, Z22, Z23)
	ZERO4(Z24, Z25, Z26, Z27)
	ZERO4(Z28, Z29, Z30, Z31)

low:
	VMOVUPS (SI), Z0
	MUL1(4(SI), Z16)
	MUL1(8(SI), Z17)
	MUL1(12(SI), Z18)
	MUL1(16(SI), Z19)
	MUL1(20(SI), Z20)
	MUL1(24(SI), Z21)
	MUL1(28(SI), Z22)
	MUL1(32(SI), Z23)
	MUL1(36(SI), Z24)
	MUL1(40(SI), Z25)
	MUL1(44(SI), Z26)
	MUL1(48(SI), Z27)
	MUL1(52(SI), Z28)
	MUL1(56(SI), Z29)
	MUL1(60(SI), Z30)
	MUL1(64(SI), Z31)
	ADDQ    $128, SI
	DECQ    CX
	JNZ     low

	MOVQ    dots+0(FP), DI
	VMOVUPS Z16, (DI)
	VMOVUPS Z17, (4*1)(DI)
	VMOVUPS Z18, (4*3)(DI)
	VMOVUPS Z19, (4*6)(DI)
	VMOVUPS Z20, (4*10)(DI)
	VMOVUPS Z21, (4*15)(DI)
	VMOVUPS Z22, (4*21)(DI)
	VMOVUPS Z23, (4*28)(DI)
	VMOVUPS Z24, (4*36)(DI)
	VMOVUPS Z25, (4*45)(DI)
	VMOVUPS Z26, (4*55)(DI)
	VMOVUPS Z27, (4*66)(DI)
	VMOVUPS Z28, (4*78)(DI)
	VMOVUPS Z29, (4*91)(DI)
	VMOVUPS Z30, (4*105)(DI)
	VMOVUPS Z31, (4*120)(DI)
	CMPQ    R10, $17
	JEQ     done

	// Rows 17 to 27.
	MOVQ t+16(FP), SI
	MOVQ d+32(FP), CX
	ZERO4(Z10, Z11, Z12, Z13)
	ZERO4(Z14, Z15, Z16, Z17)
	ZERO4(Z18, Z19, Z20, Z21)
	ZERO4(Z22, Z23, Z24, Z25)
	ZERO4(Z26, Z27, Z28, Z29)
	VPXORD Z30, Z30, Z30
	VPXORD Z31, Z31, Z31

high:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	MUL2(68(SI), Z10, Z11)
	MUL2(72(SI), Z12, Z13)
	MUL2(76(SI), Z14, Z15)
	MUL2(80(SI), Z16, Z17)
	MUL2(84(SI), Z18, Z19)
	MUL2(88(SI), Z20, Z21)
	MUL2(92(SI), Z22, Z23)
	MUL2(96(SI), Z24, Z25)
	MUL2(100(SI), Z26, Z27)
	MUL2(104(SI), Z28, Z29)
	MUL2(108(SI), Z30, Z31)
	ADDQ    $128, SI
	DECQ    CX
	JNZ     high

	OUT2(17, Z10, Z11)
	OUT2(18, Z12, Z13)
	OUT2(19, Z14, Z15)
	OUT2(20, Z16, Z17)
	OUT2(21, Z18, Z19)
	OUT2(22, Z20, Z21)
	OUT2(23, Z22, Z23)
	OUT2(24, Z24, Z25)
	OUT2(25, Z26, Z27)
	OUT2(26, Z28, Z29)
	OUT2(27, Z30, Z31)

last: // the rest of row f - 1, in Z3: f - 17 floats, after float (f-1)(f-2)/2 + 16
	LEAQ  -17(R10), CX
	MOVL  $1, AX
	SHLQ  CX, AX
	DECQ  AX
	KMOVW AX, K1
	LEAQ  -1(R10), AX
	LEAQ  -2(R10), BX
	IMULQ BX, AX
	VMOVUPS Z3, K1, 64(DI)(AX*2)

done:
	VZEROUPPER
	RET

// LOWER loads the first n floats of row i of the dots, and zeros. From row from on.
#define LOWER(n, at, z) \
	MOVL      $((1<<n)-1), AX; \
	KMOVW     AX, K1; \
	VMOVUPS.Z (at)(SI), K1, z

// LEFT loads the first 16 floats of row i, if there is one.
#define LEFT(i, z) \
	CMPQ    R10, $i; \
	JLE     left; \
	VMOVUPS (2*i*(i-1))(SI), z

// RIGHT loads the others, i - 16.
#define RIGHT(i, z) \
	CMPQ R10, $i; \
	JLE  right; \
	LOWER((i-16), 2*i*(i-1)+64, z)

// GRAD stores row i of dx, if there is one.
#define GRAD(i, z) \
	CMPQ    R10, $i; \
	JLE     stored; \
	VMOVUPS z, (DI); \
	ADDQ    R8, DI

#define GRADALL(z) \
	VMOVUPS z, (DI); \
	ADDQ    R8, DI

// func dotsGradAVX512(dx, dots, x, lead, s unsafe.Pointer, f, d int)
// s has room for (28, 32) floats; it is set to the dots, symmetric, with a zero diagonal. lead may be nil.
// for i < f { for k < d { a := +0.0; for j < f ascending { a = fma(s[j][i], x[j][k], a) }; dx[i][k] = i == 0 && lead ? a + lead[k] : a } }
TEXT ·dotsGradAVX512(SB), NOSPLIT, $0-56
	MOVQ dots+8(FP), SI
	MOVQ s+32(FP), DI
	MOVQ f+40(FP), R10
	MOVQ d+48(FP), R8
	MOVQ R8, R11
	SHRQ $4, R11
	SHLQ $2, R8

	VPXORD Z0, Z0, Z0
	LOWER(1, 4*0, Z1)
	LOWER(2, 4*1, Z2)
	LOWER(3, 4*3, Z3)
	LOWER(4, 4*6, Z4)
	LOWER(5, 4*10, Z5)
	LOWER(6, 4*15, Z6)
	LOWER(7, 4*21, Z7)
	LOWER(8, 4*28, Z8)
	LOWER(9, 4*36, Z9)
	LOWER(10, 4*45, Z10)
	LOWER(11, 4*55, Z11)
	LOWER(12, 4*66, Z12)
	LOWER(13, 4*78, Z13)
	LOWER(14, 4*91, Z14)
	LOWER(15, 4*105, Z15)
	STORE16(0)
	TRANSPOSE16
	MERGE16(0)
	STORE16(0)

	ZERO4(Z1, Z2, Z3, Z4)
	ZERO4(Z5, Z6, Z7, Z8)
	ZERO4(Z9, Z10, Z11, Z12)
	ZERO4(Z13, Z14, Z15, Z15)
	VMOVUPS (4*120)(SI), Z0
	LEFT(17, Z1)
	LEFT(18, Z2)
	LEFT(19, Z3)
	LEFT(20, Z4)
	LEFT(21, Z5)
	LEFT(22, Z6)
	LEFT(23, Z7)
	LEFT(24, Z8)
	LEFT(25, Z9)
	LEFT(26, Z10)
	LEFT(27, Z11)

left:
	STORE12(16*128)
	TRANSPOSE16
	STORE16(64)

	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	RIGHT(17, Z1)
	RIGHT(18, Z2)
	RIGHT(19, Z3)
	RIGHT(20, Z4)
	RIGHT(21, Z5)
	RIGHT(22, Z6)
	RIGHT(23, Z7)
	RIGHT(24, Z8)
	RIGHT(25, Z9)
	RIGHT(26, Z10)
	RIGHT(27, Z11)

right:
	STORE12(16*128+64)
	TRANSPOSE16
	MERGE12(16*128+64)
	STORE12(16*128+64)

	MOVQ x+16(FP), SI
	MOVQ lead+24(FP), DX
	MOVQ dx+0(FP), R9

columns:
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	ZERO4(Z16, Z17, Z18, Z19)
	ZERO4(Z20, Z21, Z22, Z23)
	ZERO4(Z24, Z25, Z26, Z27)
	ZERO4(Z28, Z29, Z30, Z31)
	MOVQ s+32(FP), BX
	MOVQ SI, AX
	MOVQ R10, CX

step:
	VMOVUPS (AX), Z0
	MUL1(0(BX), Z4)
	MUL1(4(BX), Z5)
	MUL1(8(BX), Z6)
	MUL1(12(BX), Z7)
	MUL1(16(BX), Z8)
	MUL1(20(BX), Z9)
	MUL1(24(BX), Z10)
	MUL1(28(BX), Z11)
	MUL1(32(BX), Z12)
	MUL1(36(BX), Z13)
	MUL1(40(BX), Z14)
	MUL1(44(BX), Z15)
	MUL1(48(BX), Z16)
	MUL1(52(BX), Z17)
	MUL1(56(BX), Z18)
	MUL1(60(BX), Z19)
	MUL1(64(BX), Z20)
	MUL1(68(BX), Z21)
	MUL1(72(BX), Z22)
	MUL1(76(BX), Z23)
	MUL1(80(BX), Z24)
	MUL1(84(BX), Z25)
	MUL1(88(BX), Z26)
	MUL1(92(BX), Z27)
	MUL1(96(BX), Z28)
	MUL1(100(BX), Z29)
	MUL1(104(BX), Z30)
	MUL1(108(BX), Z31)
	ADDQ    R8, AX
	ADDQ    $128, BX
	DECQ    CX
	JNZ     step

	TESTQ  DX, DX
	JZ     store
	VADDPS (DX), Z4, Z4
	ADDQ   $64, DX

store:
	MOVQ R9, DI
	GRADALL(Z4)
	GRADALL(Z5)
	GRADALL(Z6)
	GRADALL(Z7)
	GRADALL(Z8)
	GRADALL(Z9)
	GRADALL(Z10)
	GRADALL(Z11)
	GRADALL(Z12)
	GRADALL(Z13)
	GRADALL(Z14)
	GRADALL(Z15)
	GRADALL(Z16)
	GRADALL(Z17)
	GRADALL(Z18)
	GRADALL(Z19)
	GRADALL(Z20)
	GRAD(17, Z21)
	GRAD(18, Z22)
	GRAD(19, Z23)
	GRAD(20, Z24)
	GRAD(21, Z25)
	GRAD(22, Z26)
	GRAD(23, Z27)
	GRAD(24, Z28)
	GRAD(25, Z29)
	GRAD(26, Z30)
	GRAD(27, Z31)

stored:
	ADDQ $64, SI
	ADDQ $64, R9
	DECQ R11
	JNZ  columns
	VZEROUPPER
	RET
