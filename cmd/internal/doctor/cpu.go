package doctor

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/ecrec/ecrec/internal/machine"
)

// features lists the features of the CPU that kernels use.
func features() Check {
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
		return Check{Status: Warn, Value: "none used by kernels on " + runtime.GOARCH, Detail: "kernels run as plain Go, many times slower"}
	}
	return Check{Status: OK, Value: strings.Join(has, " ")}
}

// cpus counts the cores that this process may use: those of its affinity, limited by the quota of
// its cgroup. online is the kernel's list of cores.
func cpus(allowed, used int, online string, cgroup machine.Cgroup) Check {
	value := fmt.Sprint(allowed)
	if n, ok := countList(online); ok {
		value += fmt.Sprintf(" of %d", n)
	}
	value += fmt.Sprintf(", Go uses %d", used)
	c := Check{Status: OK, Value: value, amount: float64(allowed)}
	if cgroup.CPUs > 0 && cgroup.CPUs < c.amount {
		c.amount = cgroup.CPUs
		c.Value += fmt.Sprintf(", cgroup quota %.3g", cgroup.CPUs)
	}
	return c
}

// countList counts the numbers in a list of the kernel, such as "0-3,8".
func countList(list string) (n int, ok bool) {
	for _, item := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, ferr := strconv.Atoi(first)
		to, terr := strconv.Atoi(last)
		if ferr != nil || terr != nil || to < from {
			return 0, false
		}
		n += to - from + 1
	}
	return n, true
}
