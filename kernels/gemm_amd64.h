// Offsets of tileRun's fields (gemm_tile.go).
#define tileRun_a 0
#define tileRun_b 8
#define tileRun_c 16
#define tileRun_bias 24
#define tileRun_gate 32
#define tileRun_rs 40
#define tileRun_ks 48
#define tileRun_ta 56
#define tileRun_bs 64
#define tileRun_ldc 72
#define tileRun_ldg 80
#define tileRun_k 88
#define tileRun_tiles 96
#define tileRun_load 104
#define tileRun_relu 112
#define tileRun_cols 120
#define tileRun_mask 128
