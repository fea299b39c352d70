package doctor

import (
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"
)

// features are the CPU's features that kernels look at.
func features() string {
	var has []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"AVX2", cpu.X86.HasAVX2}, {"FMA", cpu.X86.HasFMA}, {"AVX-512F", cpu.X86.HasAVX512F}, {"AVX-512BW", cpu.X86.HasAVX512BW},
		{"AVX-512VL", cpu.X86.HasAVX512VL}, {"AVX-512DQ", cpu.X86.HasAVX512DQ}, {"ASIMD", cpu.ARM64.HasASIMD},
	} {
		if f.is {
			has = append(has, f.name)
		}
	}
	if len(has) == 0 {
		return "none that kernels use on " + runtime.GOARCH
	}
	return strings.Join(has, " ")
}
