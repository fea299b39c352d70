package doctor

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/internal/openblas"
	"github.com/ecrec/ecrec/kernels"
)

// line is one finding.
type line struct{ what, found string }

// Print writes all findings, aligned.
func Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, part := range []struct {
		title string
		lines []line
	}{
		{"this machine", host()}, {"accelerators", accelerators()}, {"launchers and services", services()}, {"ecrec would choose", choices()},
	} {
		fmt.Fprintf(w, "%s\n", part.title)
		for _, l := range part.lines {
			fmt.Fprintf(w, "  %s\t%s\n", l.what, l.found)
		}
	}
	w.Flush() // a terminal that is gone is no error of the machine
}

func host() []line {
	lines := []line{
		{"ecrec", machine.Version() + ", " + machine.GoVersion()},
		{"cpu", machine.CPU()},
		{"features", features()},
		{"cores", cores()},
		{"memory", memory()},
		{"huge pages", hugePages()},
		{"disk", freeDisk(".")},
	}
	return append(lines, line{"OpenBLAS", openBLAS()})
}

func cores() string {
	s := fmt.Sprintf("%d, of which Go uses %d", runtime.NumCPU(), runtime.GOMAXPROCS(0))
	if quota := readWord("/sys/fs/cgroup/cpu.max"); quota != "" && !strings.HasPrefix(quota, "max") {
		s += " (cgroup quota " + quota + " microseconds)"
	}
	return s
}

func memory() string {
	n, ok := machine.AvailableMemory()
	if !ok {
		return "cannot be told"
	}
	s := machine.Size(n) + " available"
	if limit := readWord("/sys/fs/cgroup/memory.max"); limit != "" && limit != "max" {
		s += ", cgroup limit " + limit + " bytes"
	}
	return s
}

// hugePages is the mode in brackets in the kernel's list.
func hugePages() string {
	modes := readWord("/sys/kernel/mm/transparent_hugepage/enabled")
	_, mode, found := strings.Cut(modes, "[")
	mode, _, closed := strings.Cut(mode, "]")
	if !found || !closed {
		return "cannot be told"
	}
	switch mode {
	case "never":
		return "never: gathering rows is slower; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	default:
		return mode + ": rows and activations use them"
	}
}

func openBLAS() string {
	lib, err := openblas.Open()
	if err != nil {
		return "not found (only kernels.blas = \"openblas\" needs it)"
	}
	return lib.Config()
}

// choices are what the defaults come to here, in this version.
func choices() []line {
	body := "none"
	if dev, err := kernels.NewCPU(kernels.CPUOptions{}); err == nil {
		body = dev.Name()
	}
	return []line{
		{"job.device", "cpu (this version has no other)"},
		{"kernels", body},
		{"job.threads", fmt.Sprint(runtime.GOMAXPROCS(0))},
		{"collectives.transport", "auto: memory within a process and between those of a host, TCP between hosts"},
	}
}

// readWord is the first line of a small file, "" when it cannot be read.
func readWord(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}
