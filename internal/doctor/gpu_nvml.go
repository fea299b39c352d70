//go:build cgo && linux

package doctor

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/ecrec/ecrec/internal/machine"
)

// gpus asks NVML. After a failed Init nothing of NVML may be called: its symbols
// are not there, and the process would end.
func gpus() []line {
	if status := nvml.Init(); status != nvml.SUCCESS {
		return []line{{"GPUs", "none found (NVML is not there: no NVIDIA driver)"}}
	}
	defer nvml.Shutdown()
	driver, _ := nvml.SystemGetDriverVersion()
	n, status := nvml.DeviceGetCount()
	if status != nvml.SUCCESS || n == 0 {
		return []line{{"GPUs", "none found (driver " + driver + ")"}}
	}
	lines := []line{{"GPUs", fmt.Sprintf("%d, driver %s", n, driver)}}
	for i := range n {
		lines = append(lines, line{fmt.Sprintf("GPU %d", i), describe(i)})
	}
	return lines
}

func describe(i int) string {
	dev, status := nvml.DeviceGetHandleByIndex(i)
	if status != nvml.SUCCESS {
		return "cannot be asked: " + nvml.ErrorString(status)
	}
	name, status := dev.GetName()
	if status != nvml.SUCCESS {
		name = "unnamed"
	}
	if mem, status := dev.GetMemoryInfo(); status == nvml.SUCCESS {
		name += fmt.Sprintf(", %s, %s free", machine.Size(int64(mem.Total)), machine.Size(int64(mem.Free)))
	}
	if major, minor, status := dev.GetCudaComputeCapability(); status == nvml.SUCCESS {
		name += fmt.Sprintf(", compute capability %d.%d", major, minor)
	}
	return name
}
