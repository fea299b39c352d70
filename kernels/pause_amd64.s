#include "textflag.h"

// func pause()
// One PAUSE instruction: 15 to 55 ns in which the core rests.
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	RET
