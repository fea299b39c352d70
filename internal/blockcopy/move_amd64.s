#include "textflag.h"

// func move(dst, src []byte)
TEXT ·move(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), CX
	CLD
	REP; MOVSB
	RET
