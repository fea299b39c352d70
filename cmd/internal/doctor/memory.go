package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/internal/machine"
)

// memory reports the memory of the machine, or the limit of the cgroup if that is lower.
func memory(m machine.Memory, err error, cgroup machine.Cgroup) Check {
	if err != nil {
		return Check{Status: Fail, Value: "unknown", Detail: err.Error()}
	}
	c := Check{Status: OK, Value: machine.Size(m.Total) + ", " + machine.Size(m.Available) + " available", amount: float64(m.Total)}
	if cgroup.MemoryLimit > 0 && cgroup.MemoryLimit < m.Total {
		c.amount = float64(cgroup.MemoryLimit)
		c.Value += fmt.Sprintf("; cgroup limit %s, %s left", machine.Size(cgroup.MemoryLimit), machine.Size(cgroup.MemoryLeft))
	}
	return c
}

func swap(m machine.Memory, err error) Check {
	switch used := m.SwapTotal - m.SwapFree; {
	case err != nil:
		return Check{Status: Absent, Value: "unknown", Detail: err.Error()}
	case m.SwapTotal == 0:
		return Check{Status: OK, Value: "none"}
	case used > 0:
		return Check{Status: Warn, Value: machine.Size(used) + " of " + machine.Size(m.SwapTotal) + " in use",
			Detail: "memory is or was short; steps that touch swapped-out memory wait for the disk; free memory"}
	}
	return Check{Status: OK, Value: machine.Size(m.SwapTotal) + ", not in use"}
}

// shmWanted is more than MPI and NCCL use of /dev/shm for the processes of a host. Containers have
// 64 MiB by default.
const shmWanted = 512 << 20

func shm(total, free int64, err error) Check {
	if err != nil {
		return Check{Status: Absent, Value: "not found", Detail: "/dev/shm: " + err.Error() +
			"; MPI and NCCL need it between the processes of a host"}
	}
	c := Check{Status: OK, Value: machine.Size(total) + ", " + machine.Size(free) + " free", amount: float64(total)}
	if free < shmWanted {
		c.Status = Warn
		c.Detail = "/dev/shm is small for MPI and NCCL; remove files from it or enlarge it (docker run --shm-size)"
	}
	return c
}

// sharedMemory checks that processes of a host can share an arena.
func sharedMemory(bytes uint64, err error) Check {
	if err != nil {
		return Check{Status: Warn, Value: "no shared memory",
			Detail: err.Error() + "; processes of a host copy messages instead, which is slower; check RLIMIT_AS (ulimit -v) and vm.overcommit_memory"}
	}
	return Check{Status: OK, Value: "memfd of " + machine.Size(int64(bytes)) + " mapped and read through a second mapping"}
}

// shareMemory allocates in this process's arena and reads the memory as another process would.
func shareMemory() (size uint64, err error) {
	a, err := arena.Own()
	if err != nil {
		return 0, err
	}
	want := []byte("ecrec doctor")
	p, err := a.Alloc(len(want))
	if err != nil {
		return 0, err
	}
	defer a.Free(p)
	mine := unsafe.Slice((*byte)(p), len(want))
	copy(mine, want)
	view, err := arena.Open(a.Name())
	if err != nil {
		return 0, err
	}
	defer view.Close()
	offset, _ := a.Offset(mine)
	if !bytes.Equal(view.Bytes(offset, len(want)), want) {
		return 0, errors.New("the second mapping reads something else")
	}
	return a.Name().Bytes, nil
}

// hugePages checks the modes of transparent huge pages, for private and for shared memory, in the
// kernel's format.
func hugePages(private, shared string, m machine.Memory) Check {
	mode, ok := chosen(private)
	if !ok {
		return Check{Status: Absent, Value: "unknown", Detail: "/sys/kernel/mm/transparent_hugepage cannot be read, or this kernel has none"}
	}
	c := Check{Status: OK, Value: "transparent: " + mode}
	if mode == "never" {
		c.Status = Warn
		c.Detail = "gathering rows is slower; as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	}
	switch mode, ok := chosen(shared); {
	case ok && (mode == "never" || mode == "deny"):
		c.Value += ", shared memory: " + mode
		c.Detail = join(c.Detail, "shared memory has no huge pages; as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled")
	case ok:
		c.Value += ", shared memory: " + mode
	}
	if m.HugePages > 0 {
		c.Value += fmt.Sprintf(", reserved: %d of %s", m.HugePages, machine.Size(m.HugePageBytes))
		c.Detail = join(c.Detail, "ecrec cannot use the "+machine.Size(m.HugePages*m.HugePageBytes)+" of reserved huge pages (hugetlbfs)")
	}
	return c
}

// chosen returns the mode in brackets of a list of the kernel, "always [madvise] never".
func chosen(list string) (mode string, ok bool) {
	_, mode, found := strings.Cut(list, "[")
	mode, _, closed := strings.Cut(mode, "]")
	return mode, found && closed
}
