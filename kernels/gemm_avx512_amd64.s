#include "textflag.h"
#include "gemm_amd64.h"

// AVX-512 micro-kernels: 14 or 4 rows of C, 2 or 1 vectors of 16 columns.
// Z0, Z1 one row of B; Z2 an element of A; Z3 scratch; Z4.. the tile of C.
// AX, BX rows 0 and 8 of A; R8, R9, R10, R11 rs times 1, 3, 5, 7.
// K3, K4 the columns that C has. R14 the part of A that is prefetched, R15 the step to the next. For tiles of 4 rows ROWS jumps to end after them.
// Loops of four steps whose label ends in C prefetch a row of C in each pass. R14, or R9 in columns, has its address. R15 or R10
// has the step to the next row, not 0 before that loop. R13 counts the passes.

#define ROW2(mem, c0, c1) \
	VBROADCASTSS mem, Z2; \
	VFMADD231PS  Z0, Z2, c0; \
	VFMADD231PS  Z1, Z2, c1

// ROWSTEP2 is step k + a/4 for A stored by rows, and a packed B, from byte b of it on.
#define ROWSTEP2(a, b) \
	VMOVUPS b(SI), Z0; \
	VMOVUPS (b+64)(SI), Z1; \
	ROW2(a(AX), Z4, Z5); \
	ROW2(a(AX)(R8*1), Z6, Z7); \
	ROW2(a(AX)(R8*2), Z8, Z9); \
	ROW2(a(AX)(R9*1), Z10, Z11); \
	ROW2(a(AX)(R8*4), Z12, Z13); \
	ROW2(a(AX)(R10*1), Z14, Z15); \
	ROW2(a(AX)(R9*2), Z16, Z17); \
	ROW2(a(AX)(R11*1), Z18, Z19); \
	ROW2(a(BX), Z20, Z21); \
	ROW2(a(BX)(R8*1), Z22, Z23); \
	ROW2(a(BX)(R8*2), Z24, Z25); \
	ROW2(a(BX)(R9*1), Z26, Z27); \
	ROW2(a(BX)(R8*4), Z28, Z29); \
	ROW2(a(BX)(R10*1), Z30, Z31)

// COLUMNSTEP2 is the same for A stored by columns, of which at has one element.
#define COLUMNSTEP2(at, b) \
	VMOVUPS b(SI), Z0; \
	VMOVUPS (b+64)(SI), Z1; \
	ROW2(0 at, Z4, Z5); \
	ROW2(4 at, Z6, Z7); \
	ROW2(8 at, Z8, Z9); \
	ROW2(12 at, Z10, Z11); \
	ROW2(16 at, Z12, Z13); \
	ROW2(20 at, Z14, Z15); \
	ROW2(24 at, Z16, Z17); \
	ROW2(28 at, Z18, Z19); \
	ROW2(32 at, Z20, Z21); \
	ROW2(36 at, Z22, Z23); \
	ROW2(40 at, Z24, Z25); \
	ROW2(44 at, Z26, Z27); \
	ROW2(48 at, Z28, Z29); \
	ROW2(52 at, Z30, Z31)

// STRIPSTEP2 is the same for A in strips, from byte a of it on.
#define STRIPSTEP2(a, b) \
	VMOVUPS b(SI), Z0; \
	VMOVUPS (b+64)(SI), Z1; \
	ROW2(a(AX), Z4, Z5); \
	ROW2((a+4)(AX), Z6, Z7); \
	ROW2((a+8)(AX), Z8, Z9); \
	ROW2((a+12)(AX), Z10, Z11); \
	ROW2((a+16)(AX), Z12, Z13); \
	ROW2((a+20)(AX), Z14, Z15); \
	ROW2((a+24)(AX), Z16, Z17); \
	ROW2((a+28)(AX), Z18, Z19); \
	ROW2((a+32)(AX), Z20, Z21); \
	ROW2((a+36)(AX), Z22, Z23); \
	ROW2((a+40)(AX), Z24, Z25); \
	ROW2((a+44)(AX), Z26, Z27); \
	ROW2((a+48)(AX), Z28, Z29); \
	ROW2((a+52)(AX), Z30, Z31)

#define LOAD2(c0, c1) \
	VMOVUPS.Z (DX), K3, c0; \
	VMOVUPS.Z 64(DX), K4, c1; \
	ADDQ      R12, DX

#define STORE2(c0, c1) \
	VMOVUPS c0, K3, (DX); \
	VMOVUPS c1, K4, 64(DX); \
	ADDQ    R12, DX

#define ADD2(c0, c1) \
	VADDPS Z0, c0, c0; \
	VADDPS Z1, c1, c1

#define RELU2(c0, c1) \
	VMAXPS c0, Z3, c0; \
	VMAXPS c1, Z3, c1

#define GATE2(c0, c1) \
	VMOVUPS.Z (DX), K3, Z0; \
	VMOVUPS.Z 64(DX), K4, Z1; \
	VCMPPS    $0x1E, Z3, Z0, K1; \
	VCMPPS    $0x1E, Z3, Z1, K2; \
	VMOVAPS.Z c0, K1, c0; \
	VMOVAPS.Z c1, K2, c1; \
	ADDQ      R12, DX

#define PREFETCH2(c0, c1) \
	PREFETCHT0 (DX); \
	PREFETCHT0 64(DX); \
	PREFETCHT0 124(DX); \
	ADDQ       R12, DX

#define ZERO2(c0, c1) \
	VPXORD c0, c0, c0; \
	VPXORD c1, c1, c1

#define ROWS2(OP, end) \
	OP(Z4, Z5); \
	OP(Z6, Z7); \
	OP(Z8, Z9); \
	OP(Z10, Z11); \
	CMPQ tileRun_rows(DI), $4; \
	JEQ end; \
	OP(Z12, Z13); \
	OP(Z14, Z15); \
	OP(Z16, Z17); \
	OP(Z18, Z19); \
	OP(Z20, Z21); \
	OP(Z22, Z23); \
	OP(Z24, Z25); \
	OP(Z26, Z27); \
	OP(Z28, Z29); \
	OP(Z30, Z31)

// func tile14x32(t *tileRun)
// for each tile, r < t.rows (14 or 4), j < 32:
//	s := +0.0, or C[r][j] if t.load
//	for k ascending { s = fma(A[r][k], B[k][j], s) }
//	if bias { s += bias[j] }; if relu { s = s < 0 ? +0.0 : s }
//	if gate { s = gate[r][j] > 0 ? s : +0.0 }; if j < cols { C[r][j] = s }
TEXT ·tile14x32(SB), NOSPLIT, $0-8
	MOVQ t+0(FP), DI
	MOVQ tileRun_rs(DI), R8
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10
	LEAQ (R10)(R8*2), R11
	MOVQ tileRun_cols(DI), CX
	MOVL $1, AX
	SHLQ CX, AX
	DECQ AX
	KMOVW AX, K3
	SHRQ $16, AX
	KMOVW AX, K4

tile:
	MOVQ tileRun_a(DI), AX
	LEAQ (AX)(R8*8), BX
	MOVQ tileRun_b(DI), SI
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	CMPQ tileRun_load(DI), $0
	JNE  load
	ROWS2(ZERO2, chain)
	JMP  chain

load:
	ROWS2(LOAD2, chain)

chain:
	// DX is at this tile's C, or, after a load, at the next one's.
	ADDQ tileRun_aheadC(DI), DX
	MOVQ DX, tileRun_nextC(DI)
	CMPQ tileRun_lateC(DI), $0
	JNE  prefetched
	ROWS2(PREFETCH2, prefetched)

prefetched:
	MOVQ  tileRun_ks(DI), R12
	MOVQ  tileRun_bs(DI), R13
	MOVQ  tileRun_next(DI), DX
	MOVQ  tileRun_ahead(DI), R14
	MOVQ  tileRun_aheadStep(DI), R15
	ADDQ  AX, R14
	MOVQ  tileRun_k(DI), CX
	TESTQ CX, CX
	JZ    finish
	CMPQ  tileRun_rows(DI), $4
	JEQ   step4

	// Four steps at a time, if strides are the usual ones: fewer instructions, which count where a core runs two threads.
	CMPQ R13, $128
	JNE  step
	SUBQ $4, CX
	JLT  few
	CMPQ R12, $4
	JEQ  byRows
	CMPQ R8, $4
	JNE  few
	CMPQ R12, $64
	JNE  columns
	MOVQ tileRun_fetch(DI), DX
	XORQ R15, R15
	CMPQ tileRun_lateC(DI), $0
	JEQ  strips4
	MOVQ tileRun_nextC(DI), R14
	MOVQ tileRun_ldc(DI), R15
	SUBQ tileRun_lateC(DI), CX

strips4:
	STRIPSTEP2(0, 0)
	PREFETCHT1 (DX)
	STRIPSTEP2(64, 128)
	PREFETCHT1 64(DX)
	STRIPSTEP2(128, 256)
	ADDQ       $128, DX
	STRIPSTEP2(192, 384)
	ADDQ       $256, AX
	ADDQ       $256, BX
	ADDQ       $512, SI
	SUBQ       $4, CX
	JGE        strips4
	TESTQ      R15, R15
	JZ         fetched
	ADDQ       tileRun_lateC(DI), CX
	MOVQ       $14, R13

strips4C: // the same, and each pass prefetches a row of C
	STRIPSTEP2(0, 0)
	PREFETCHT1 (DX)
	PREFETCHT0 (R14)
	STRIPSTEP2(64, 128)
	PREFETCHT1 64(DX)
	PREFETCHT0 64(R14)
	STRIPSTEP2(128, 256)
	ADDQ       $128, DX
	PREFETCHT0 124(R14)
	ADDQ       R15, R14
	STRIPSTEP2(192, 384)
	ADDQ       $256, AX
	ADDQ       $256, BX
	ADDQ       $512, SI
	SUBQ       $4, CX
	DECQ       R13
	JNZ        strips4C
	MOVQ       $128, R13
	XORQ       R15, R15
	JMP        strips4

columns: // BX becomes three steps, R9 and R10 the C that is prefetched and its rows
	MOVQ tileRun_fetch(DI), DX
	LEAQ (R12)(R12*2), BX
	XORQ R10, R10
	CMPQ tileRun_lateC(DI), $0
	JEQ  columns4
	MOVQ tileRun_nextC(DI), R9
	MOVQ tileRun_ldc(DI), R10
	SUBQ tileRun_lateC(DI), CX

columns4:
	COLUMNSTEP2((AX), 0)
	PREFETCHT1  (DX)
	PREFETCHT0  (R14)
	PREFETCHT0  52(R14)
	COLUMNSTEP2((AX)(R12*1), 128)
	PREFETCHT1  64(DX)
	PREFETCHT0  (R14)(R12*1)
	PREFETCHT0  52(R14)(R12*1)
	COLUMNSTEP2((AX)(R12*2), 256)
	ADDQ        $128, DX
	PREFETCHT0  (R14)(R12*2)
	PREFETCHT0  52(R14)(R12*2)
	COLUMNSTEP2((AX)(BX*1), 384)
	PREFETCHT0  (R14)(BX*1)
	PREFETCHT0  52(R14)(BX*1)
	LEAQ        (AX)(R12*4), AX
	LEAQ        (R14)(R12*4), R14
	ADDQ        $512, SI
	SUBQ        $4, CX
	JGE         columns4
	TESTQ       R10, R10
	JZ          columnsEnd
	ADDQ        tileRun_lateC(DI), CX
	MOVQ        $14, R13

columns4C: // the same, and each pass prefetches a row of C
	COLUMNSTEP2((AX), 0)
	PREFETCHT1  (DX)
	PREFETCHT0  (R14)
	PREFETCHT0  52(R14)
	PREFETCHT0  (R9)
	COLUMNSTEP2((AX)(R12*1), 128)
	PREFETCHT1  64(DX)
	PREFETCHT0  (R14)(R12*1)
	PREFETCHT0  52(R14)(R12*1)
	PREFETCHT0  64(R9)
	COLUMNSTEP2((AX)(R12*2), 256)
	ADDQ        $128, DX
	PREFETCHT0  (R14)(R12*2)
	PREFETCHT0  52(R14)(R12*2)
	PREFETCHT0  124(R9)
	COLUMNSTEP2((AX)(BX*1), 384)
	PREFETCHT0  (R14)(BX*1)
	PREFETCHT0  52(R14)(BX*1)
	ADDQ        R10, R9
	LEAQ        (AX)(R12*4), AX
	LEAQ        (R14)(R12*4), R14
	ADDQ        $512, SI
	SUBQ        $4, CX
	DECQ        R13
	JNZ         columns4C
	MOVQ        $128, R13
	XORQ        R10, R10
	JMP         columns4

columnsEnd:
	LEAQ (AX)(R8*8), BX
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10
	JMP  fetched

byRows:
	MOVQ  tileRun_fetch(DI), DX
	TESTQ R15, R15
	JNZ   rows4
	CMPQ  tileRun_lateC(DI), $0
	JEQ   rows4again
	MOVQ  tileRun_nextC(DI), R14
	MOVQ  tileRun_ldc(DI), R15
	SUBQ  tileRun_lateC(DI), CX

rows4again: // the next tile of A is in the caches
	ROWSTEP2(0, 0)
	PREFETCHT1 (DX)
	ROWSTEP2(4, 128)
	PREFETCHT1 64(DX)
	ROWSTEP2(8, 256)
	ADDQ       $128, DX
	ROWSTEP2(12, 384)
	ADDQ       $16, AX
	ADDQ       $16, BX
	ADDQ       $512, SI
	SUBQ       $4, CX
	JGE        rows4again
	TESTQ      R15, R15
	JZ         fetched
	ADDQ       tileRun_lateC(DI), CX
	MOVQ       $14, R13

rows4C: // the same, and each pass prefetches a row of C
	ROWSTEP2(0, 0)
	PREFETCHT1 (DX)
	PREFETCHT0 (R14)
	ROWSTEP2(4, 128)
	PREFETCHT1 64(DX)
	PREFETCHT0 64(R14)
	ROWSTEP2(8, 256)
	ADDQ       $128, DX
	PREFETCHT0 124(R14)
	ADDQ       R15, R14
	ROWSTEP2(12, 384)
	ADDQ       $16, AX
	ADDQ       $16, BX
	ADDQ       $512, SI
	SUBQ       $4, CX
	DECQ       R13
	JNZ        rows4C
	MOVQ       $128, R13
	XORQ       R15, R15
	JMP        rows4again

rows4:
	ROWSTEP2(0, 0)
	PREFETCHT1 (DX)
	PREFETCHT0 (R14)
	ROWSTEP2(4, 128)
	PREFETCHT1 64(DX)
	PREFETCHT0 64(R14)
	ROWSTEP2(8, 256)
	ADDQ       $128, DX
	PREFETCHT0 128(R14)
	ROWSTEP2(12, 384)
	PREFETCHT0 192(R14)
	LEAQ       (R14)(R15*4), R14
	ADDQ       $16, AX
	ADDQ       $16, BX
	ADDQ       $512, SI
	SUBQ       $4, CX
	JGE        rows4

fetched:
	MOVQ DX, tileRun_fetch(DI)

few:
	ADDQ $4, CX
	JZ   finish
	MOVQ tileRun_next(DI), DX

step:
	VMOVUPS    (SI), Z0
	VMOVUPS    64(SI), Z1
	PREFETCHT1 (SI)(DX*1)
	PREFETCHT1 64(SI)(DX*1)
	PREFETCHT0 (R14)
	PREFETCHT0 52(R14)
	ADDQ       R15, R14
	ROW2((AX), Z4, Z5)
	ROW2((AX)(R8*1), Z6, Z7)
	ROW2((AX)(R8*2), Z8, Z9)
	ROW2((AX)(R9*1), Z10, Z11)
	ROW2((AX)(R8*4), Z12, Z13)
	ROW2((AX)(R10*1), Z14, Z15)
	ROW2((AX)(R9*2), Z16, Z17)
	ROW2((AX)(R11*1), Z18, Z19)
	ADDQ    R12, AX
	ROW2((BX), Z20, Z21)
	ROW2((BX)(R8*1), Z22, Z23)
	ROW2((BX)(R8*2), Z24, Z25)
	ROW2((BX)(R9*1), Z26, Z27)
	ROW2((BX)(R8*4), Z28, Z29)
	ROW2((BX)(R10*1), Z30, Z31)
	ADDQ    R12, BX
	ADDQ    R13, SI
	DECQ    CX
	JNZ     step
	JMP     finish

step4:
	VMOVUPS    (SI), Z0
	VMOVUPS    64(SI), Z1
	PREFETCHT1 (SI)(DX*1)
	PREFETCHT1 64(SI)(DX*1)
	ROW2((AX), Z4, Z5)
	ROW2((AX)(R8*1), Z6, Z7)
	ROW2((AX)(R8*2), Z8, Z9)
	ROW2((AX)(R9*1), Z10, Z11)
	ADDQ    R12, AX
	ADDQ    R13, SI
	DECQ    CX
	JNZ     step4

finish:
	MOVQ    tileRun_bias(DI), SI
	TESTQ   SI, SI
	JZ      relu
	VMOVUPS.Z (SI), K3, Z0
	VMOVUPS.Z 64(SI), K4, Z1
	ROWS2(ADD2, relu)

relu:
	VPXORD Z3, Z3, Z3
	CMPQ   tileRun_relu(DI), $0
	JE     gate
	ROWS2(RELU2, gate)

gate:
	MOVQ  tileRun_gate(DI), DX
	TESTQ DX, DX
	JZ    store
	MOVQ  tileRun_ldg(DI), R12
	ROWS2(GATE2, gated)

gated:
	MOVQ  DX, tileRun_gate(DI)

store:
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	ROWS2(STORE2, stored)

stored:
	MOVQ DX, tileRun_c(DI)
	MOVQ tileRun_ta(DI), AX
	ADDQ AX, tileRun_a(DI)
	DECQ tileRun_tiles(DI)
	JNZ  tile
	VZEROUPPER
	RET

#define ROW1(mem, c0) VFMADD231PS.BCST mem, Z0, c0

#define LOAD1(c0) \
	VMOVUPS.Z (DX), K3, c0; \
	ADDQ      R12, DX

#define STORE1(c0) \
	VMOVUPS c0, K3, (DX); \
	ADDQ    R12, DX

#define PREFETCH1(c0) \
	PREFETCHT0 (DX); \
	ADDQ       R12, DX

#define ADD1(c0) VADDPS Z0, c0, c0
#define RELU1(c0) VMAXPS c0, Z3, c0
#define ZERO1(c0) VPXORD c0, c0, c0

#define GATE1(c0) \
	VMOVUPS.Z (DX), K3, Z0; \
	VCMPPS    $0x1E, Z3, Z0, K1; \
	VMOVAPS.Z c0, K1, c0; \
	ADDQ      R12, DX

#define ROWS1(OP, end) \
	OP(Z4); \
	OP(Z5); \
	OP(Z6); \
	OP(Z7); \
	CMPQ tileRun_rows(DI), $4; \
	JEQ end; \
	OP(Z8); \
	OP(Z9); \
	OP(Z10); \
	OP(Z11); \
	OP(Z12); \
	OP(Z13); \
	OP(Z14); \
	OP(Z15); \
	OP(Z16); \
	OP(Z17)

// func tile14x16(t *tileRun)
// The loop of tile14x32 with j < 16.
TEXT ·tile14x16(SB), NOSPLIT, $0-8
	MOVQ t+0(FP), DI
	MOVQ tileRun_rs(DI), R8
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10
	LEAQ (R10)(R8*2), R11
	MOVQ tileRun_cols(DI), CX
	MOVL $1, AX
	SHLQ CX, AX
	DECQ AX
	KMOVW AX, K3
	SHRQ $16, AX
	KMOVW AX, K4

tile:
	MOVQ tileRun_a(DI), AX
	LEAQ (AX)(R8*8), BX
	MOVQ tileRun_b(DI), SI
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	CMPQ tileRun_load(DI), $0
	JNE  load
	ROWS1(ZERO1, chain)
	JMP  chain

load:
	ROWS1(LOAD1, chain)

chain:
	ADDQ tileRun_aheadC(DI), DX
	ROWS1(PREFETCH1, prefetched)

prefetched:
	MOVQ  tileRun_ks(DI), R12
	MOVQ  tileRun_bs(DI), R13
	MOVQ  tileRun_next(DI), DX
	MOVQ  tileRun_ahead(DI), R14
	MOVQ  tileRun_aheadStep(DI), R15
	ADDQ  AX, R14
	MOVQ  tileRun_k(DI), CX
	TESTQ CX, CX
	JZ    finish
	CMPQ  tileRun_rows(DI), $4
	JEQ   step4

step:
	VMOVUPS    (SI), Z0
	PREFETCHT0 (R14)
	ADDQ       R15, R14
	ROW1((AX), Z4)
	ROW1((AX)(R8*1), Z5)
	ROW1((AX)(R8*2), Z6)
	ROW1((AX)(R9*1), Z7)
	ROW1((AX)(R8*4), Z8)
	ROW1((AX)(R10*1), Z9)
	ROW1((AX)(R9*2), Z10)
	ROW1((AX)(R11*1), Z11)
	ADDQ    R12, AX
	ROW1((BX), Z12)
	ROW1((BX)(R8*1), Z13)
	ROW1((BX)(R8*2), Z14)
	ROW1((BX)(R9*1), Z15)
	ROW1((BX)(R8*4), Z16)
	ROW1((BX)(R10*1), Z17)
	ADDQ    R12, BX
	ADDQ    R13, SI
	DECQ    CX
	JNZ     step
	JMP     finish

step4:
	VMOVUPS (SI), Z0
	ROW1((AX), Z4)
	ROW1((AX)(R8*1), Z5)
	ROW1((AX)(R8*2), Z6)
	ROW1((AX)(R9*1), Z7)
	ADDQ    R12, AX
	ADDQ    R13, SI
	DECQ    CX
	JNZ     step4

finish:
	MOVQ    tileRun_bias(DI), SI
	TESTQ   SI, SI
	JZ      relu
	VMOVUPS.Z (SI), K3, Z0
	ROWS1(ADD1, relu)

relu:
	VPXORD Z3, Z3, Z3
	CMPQ   tileRun_relu(DI), $0
	JE     gate
	ROWS1(RELU1, gate)

gate:
	MOVQ  tileRun_gate(DI), DX
	TESTQ DX, DX
	JZ    store
	MOVQ  tileRun_ldg(DI), R12
	ROWS1(GATE1, gated)

gated:
	MOVQ  DX, tileRun_gate(DI)

store:
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	ROWS1(STORE1, stored)

stored:
	MOVQ DX, tileRun_c(DI)
	MOVQ tileRun_ta(DI), AX
	ADDQ AX, tileRun_a(DI)
	DECQ tileRun_tiles(DI)
	JNZ  tile
	VZEROUPPER
	RET
