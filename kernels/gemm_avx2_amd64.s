#include "textflag.h"
#include "gemm_amd64.h"

// AVX2 and FMA micro-kernels: 6 rows of C, 2 or 1 vectors of 8 columns.
// Y0, Y1 one row of B; Y2 an element of A; Y3 scratch; Y4.. the tile of C.
// AX row 0 of A; R8, R9, R10 rs times 1, 3, 5.

#define ROW2(mem, c0, c1) \
	VBROADCASTSS mem, Y2; \
	VFMADD231PS  Y0, Y2, c0; \
	VFMADD231PS  Y1, Y2, c1

#define LOAD2(c0, c1) \
	VMOVUPS (DX), c0; \
	VMOVUPS 32(DX), c1; \
	ADDQ    R12, DX

#define STORE2(c0, c1) \
	VMOVUPS c0, (DX); \
	VMOVUPS c1, 32(DX); \
	ADDQ    R12, DX

#define ADD2(c0, c1) \
	VADDPS Y0, c0, c0; \
	VADDPS Y1, c1, c1

#define RELU2(c0, c1) \
	VMAXPS c0, Y3, c0; \
	VMAXPS c1, Y3, c1

#define GATE2(c0, c1) \
	VMOVUPS (DX), Y0; \
	VMOVUPS 32(DX), Y1; \
	VCMPPS  $0x1E, Y3, Y0, Y0; \
	VCMPPS  $0x1E, Y3, Y1, Y1; \
	VANDPS  Y0, c0, c0; \
	VANDPS  Y1, c1, c1; \
	ADDQ    R12, DX

#define PREFETCH2(c0, c1) \
	PREFETCHT0 (DX); \
	PREFETCHT0 60(DX); \
	ADDQ       R12, DX

#define ZERO2(c0, c1) \
	VXORPS c0, c0, c0; \
	VXORPS c1, c1, c1

// The same where C has fewer columns: Y2 and Y3 are their masks.

#define LOAD2M(c0, c1) \
	VMASKMOVPS (DX), Y2, c0; \
	VMASKMOVPS 32(DX), Y3, c1; \
	ADDQ       R12, DX

#define STORE2M(c0, c1) \
	VMASKMOVPS c0, Y2, (DX); \
	VMASKMOVPS c1, Y3, 32(DX); \
	ADDQ       R12, DX

#define GATE2M(c0, c1) \
	VMASKMOVPS (DX), Y2, Y0; \
	VCMPPS     $0x1E, Y1, Y0, Y0; \
	VANDPS     Y0, c0, c0; \
	VMASKMOVPS 32(DX), Y3, Y0; \
	VCMPPS     $0x1E, Y1, Y0, Y0; \
	VANDPS     Y0, c1, c1; \
	ADDQ       R12, DX

#define ALL2(OP) \
	OP(Y4, Y5); \
	OP(Y6, Y7); \
	OP(Y8, Y9); \
	OP(Y10, Y11); \
	OP(Y12, Y13); \
	OP(Y14, Y15)

#define STEP2 \
	VMOVUPS (SI), Y0; \
	VMOVUPS 32(SI), Y1; \
	PREFETCHT1 (SI)(DX*1); \
	ROW2((AX), Y4, Y5); \
	ROW2((AX)(R8*1), Y6, Y7); \
	ROW2((AX)(R8*2), Y8, Y9); \
	ROW2((AX)(R9*1), Y10, Y11); \
	ROW2((AX)(R8*4), Y12, Y13); \
	ROW2((AX)(R10*1), Y14, Y15); \
	ADDQ R12, AX; \
	ADDQ R13, SI

// func tile6x16(t *tileRun)
// for each tile, r < 6, j < 16:
//	s := +0.0, or C[r][j] if t.load
//	for k ascending { s = fma(A[r][k], B[k][j], s) }
//	if bias { s += bias[j] }; if relu { s = s < 0 ? +0.0 : s }
//	if gate { s = gate[r][j] > 0 ? s : +0.0 }; if j < cols { C[r][j] = s }
// Masked accesses are for cols < 16 only: masked stores are slow on some CPUs.
TEXT ·tile6x16(SB), NOSPLIT, $0-8
	MOVQ t+0(FP), DI
	MOVQ tileRun_rs(DI), R8
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10

tile:
	MOVQ tileRun_a(DI), AX
	MOVQ tileRun_b(DI), SI
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	CMPQ tileRun_load(DI), $0
	JNE  load
	ALL2(ZERO2)
	JMP  chain

load:
	CMPQ tileRun_cols(DI), $16
	JNE  loadMasked
	ALL2(LOAD2)
	JMP  chain

loadMasked:
	VMOVUPS tileRun_mask(DI), Y2
	VMOVUPS (tileRun_mask+32)(DI), Y3
	ALL2(LOAD2M)

chain:
	// DX is at this tile's C, or, after a load, at the next one's.
	ADDQ tileRun_aheadC(DI), DX
	ALL2(PREFETCH2)
	MOVQ tileRun_ks(DI), R12
	MOVQ tileRun_bs(DI), R13
	MOVQ tileRun_next(DI), DX
	MOVQ tileRun_k(DI), CX
	SUBQ $4, CX
	JLT  rest

step4:
	STEP2
	STEP2
	STEP2
	STEP2
	SUBQ $4, CX
	JGE  step4

rest:
	ADDQ $4, CX
	JZ   finish

step:
	STEP2
	DECQ CX
	JNZ  step

finish:
	MOVQ    tileRun_bias(DI), SI
	TESTQ   SI, SI
	JZ      relu
	CMPQ    tileRun_cols(DI), $16
	JNE     biasMasked
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	ALL2(ADD2)
	JMP     relu

biasMasked:
	VMOVUPS tileRun_mask(DI), Y2
	VMOVUPS (tileRun_mask+32)(DI), Y3
	VMASKMOVPS (SI), Y2, Y0
	VMASKMOVPS 32(SI), Y3, Y1
	ALL2(ADD2)

relu:
	VXORPS Y3, Y3, Y3
	CMPQ   tileRun_relu(DI), $0
	JE     gate
	ALL2(RELU2)

gate:
	MOVQ  tileRun_gate(DI), DX
	TESTQ DX, DX
	JZ    store
	MOVQ  tileRun_ldg(DI), R12
	CMPQ  tileRun_cols(DI), $16
	JNE   gateMasked
	ALL2(GATE2)
	MOVQ  DX, tileRun_gate(DI)
	JMP   store

gateMasked:
	VXORPS Y1, Y1, Y1
	VMOVUPS tileRun_mask(DI), Y2
	VMOVUPS (tileRun_mask+32)(DI), Y3
	ALL2(GATE2M)
	MOVQ  DX, tileRun_gate(DI)

store:
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	CMPQ tileRun_cols(DI), $16
	JNE  storeMasked
	ALL2(STORE2)
	JMP  stored

storeMasked:
	VMOVUPS tileRun_mask(DI), Y2
	VMOVUPS (tileRun_mask+32)(DI), Y3
	ALL2(STORE2M)

stored:
	MOVQ DX, tileRun_c(DI)
	MOVQ tileRun_ta(DI), AX
	ADDQ AX, tileRun_a(DI)
	DECQ tileRun_tiles(DI)
	JNZ  tile
	VZEROUPPER
	RET

#define ROW1(mem, c0) \
	VBROADCASTSS mem, Y2; \
	VFMADD231PS  Y0, Y2, c0

#define LOAD1(c0) \
	VMOVUPS (DX), c0; \
	ADDQ    R12, DX

#define STORE1(c0) \
	VMOVUPS c0, (DX); \
	ADDQ    R12, DX

#define PREFETCH1(c0) \
	PREFETCHT0 (DX); \
	ADDQ       R12, DX

#define ADD1(c0) VADDPS Y0, c0, c0
#define RELU1(c0) VMAXPS c0, Y3, c0
#define ZERO1(c0) VXORPS c0, c0, c0

#define GATE1(c0) \
	VMOVUPS (DX), Y0; \
	VCMPPS  $0x1E, Y3, Y0, Y0; \
	VANDPS  Y0, c0, c0; \
	ADDQ    R12, DX

#define LOAD1M(c0) \
	VMASKMOVPS (DX), Y2, c0; \
	ADDQ       R12, DX

#define STORE1M(c0) \
	VMASKMOVPS c0, Y2, (DX); \
	ADDQ       R12, DX

#define GATE1M(c0) \
	VMASKMOVPS (DX), Y2, Y0; \
	VCMPPS     $0x1E, Y1, Y0, Y0; \
	VANDPS     Y0, c0, c0; \
	ADDQ       R12, DX

#define ALL1(OP) \
	OP(Y4); \
	OP(Y5); \
	OP(Y6); \
	OP(Y7); \
	OP(Y8); \
	OP(Y9)

// func tile6x8(t *tileRun)
// The loop of tile6x16 with j < 8.
TEXT ·tile6x8(SB), NOSPLIT, $0-8
	MOVQ t+0(FP), DI
	MOVQ tileRun_rs(DI), R8
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10

tile:
	MOVQ tileRun_a(DI), AX
	MOVQ tileRun_b(DI), SI
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	CMPQ tileRun_load(DI), $0
	JNE  load
	ALL1(ZERO1)
	JMP  chain

load:
	CMPQ tileRun_cols(DI), $8
	JNE  loadMasked
	ALL1(LOAD1)
	JMP  chain

loadMasked:
	VMOVUPS tileRun_mask(DI), Y2
	ALL1(LOAD1M)

chain:
	ADDQ tileRun_aheadC(DI), DX
	ALL1(PREFETCH1)
	MOVQ  tileRun_ks(DI), R12
	MOVQ  tileRun_bs(DI), R13
	MOVQ  tileRun_next(DI), DX
	MOVQ  tileRun_k(DI), CX
	TESTQ CX, CX
	JZ    finish

step:
	VMOVUPS (SI), Y0
	ROW1((AX), Y4)
	ROW1((AX)(R8*1), Y5)
	ROW1((AX)(R8*2), Y6)
	ROW1((AX)(R9*1), Y7)
	ROW1((AX)(R8*4), Y8)
	ROW1((AX)(R10*1), Y9)
	ADDQ    R12, AX
	ADDQ    R13, SI
	DECQ    CX
	JNZ     step

finish:
	MOVQ    tileRun_bias(DI), SI
	TESTQ   SI, SI
	JZ      relu
	CMPQ    tileRun_cols(DI), $8
	JNE     biasMasked
	VMOVUPS (SI), Y0
	ALL1(ADD1)
	JMP     relu

biasMasked:
	VMOVUPS tileRun_mask(DI), Y2
	VMASKMOVPS (SI), Y2, Y0
	ALL1(ADD1)

relu:
	VXORPS Y3, Y3, Y3
	CMPQ   tileRun_relu(DI), $0
	JE     gate
	ALL1(RELU1)

gate:
	MOVQ  tileRun_gate(DI), DX
	TESTQ DX, DX
	JZ    store
	MOVQ  tileRun_ldg(DI), R12
	CMPQ  tileRun_cols(DI), $8
	JNE   gateMasked
	ALL1(GATE1)
	MOVQ  DX, tileRun_gate(DI)
	JMP   store

gateMasked:
	VXORPS Y1, Y1, Y1
	VMOVUPS tileRun_mask(DI), Y2
	ALL1(GATE1M)
	MOVQ  DX, tileRun_gate(DI)

store:
	MOVQ tileRun_c(DI), DX
	MOVQ tileRun_ldc(DI), R12
	CMPQ tileRun_cols(DI), $8
	JNE  storeMasked
	ALL1(STORE1)
	JMP  stored

storeMasked:
	VMOVUPS tileRun_mask(DI), Y2
	ALL1(STORE1M)

stored:
	MOVQ DX, tileRun_c(DI)
	MOVQ tileRun_ta(DI), AX
	ADDQ AX, tileRun_a(DI)
	DECQ tileRun_tiles(DI)
	JNZ  tile
	VZEROUPPER
	RET
