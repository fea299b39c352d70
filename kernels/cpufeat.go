package kernels

import (
	"fmt"
	"os"

	"golang.org/x/sys/cpu"
)

// isa is the instruction set that the inner loops of the CPU backend use. A greater
// isa includes the smaller ones. All give the same bits.
type isa int

const (
	isaPlain  isa = iota // Go only
	isaAVX2              // AVX2 and FMA
	isaAVX512            // AVX-512 F, BW, VL and DQ
)

func (i isa) String() string {
	return [...]string{"plain", "avx2", "avx512"}[i]
}

// detectISA returns the best isa that the CPU and the operating system offer,
// capped by ECREC_CPU. It panics if ECREC_CPU is unknown: people set it by hand, to
// compare instruction sets.
func detectISA() isa {
	best := isaPlain
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		best = isaAVX2
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ {
			best = isaAVX512
		}
	}
	switch limit := os.Getenv("ECREC_CPU"); limit {
	case "", "avx512":
		return best
	case "avx2":
		return min(best, isaAVX2)
	case "plain":
		return isaPlain
	default:
		panic(fmt.Sprintf("kernels: environment variable ECREC_CPU is %q; want plain, avx2 or avx512", limit))
	}
}
