// Package rng is the counter-based random generator of ecrec: a pure function of (seed,
// purpose, counter). A value can be drawn again at any time, by any rank, in any order.
//
// It is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC'11), as in Random123 and cuRAND.
package rng
