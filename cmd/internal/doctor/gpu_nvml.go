//go:build cgo && linux

package doctor

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	opened "github.com/ecrec/ecrec/internal/nvml"
)

// queryNVML returns the state of all GPUs.
func queryNVML() (d driver) {
	closeIt, err := opened.Open()
	if err != nil {
		return driver{problem: err.Error(), broken: !errors.As(err, new(*opened.None))}
	}
	defer closeIt()
	d.version, _ = nvml.SystemGetDriverVersion()
	n, status := nvml.DeviceGetCount()
	if status != nvml.SUCCESS {
		return driver{problem: "NVML: number of GPUs: " + status.Error(), broken: true}
	}
	for i := range n {
		d.gpus = append(d.gpus, queryGPU(i))
	}
	return d
}

// queryGPU returns the state of a GPU, without the values that this GPU or driver does not report.
func queryGPU(i int) (g gpu) {
	dev, status := nvml.DeviceGetHandleByIndex(i)
	if status != nvml.SUCCESS {
		return gpu{problem: "NVML: " + status.Error() + "; reset the GPU or reboot the machine"}
	}
	if g.name, status = dev.GetName(); status != nvml.SUCCESS {
		g.name = "unnamed"
	}
	if mem, status := dev.GetMemoryInfo(); status == nvml.SUCCESS {
		g.total, g.free = int64(mem.Total), int64(mem.Free)
	}
	if major, minor, status := dev.GetCudaComputeCapability(); status == nvml.SUCCESS {
		g.capability = fmt.Sprintf("%d.%d", major, minor)
	}
	if n, status := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); status == nvml.SUCCESS {
		g.uncorrected = n
	}
	if opened.HasFunction("nvmlDeviceGetRemappedRows") {
		if _, _, pending, failed, status := dev.GetRemappedRows(); status == nvml.SUCCESS {
			g.remapPending, g.remapFailed = pending, failed
		}
	}
	// Older drivers lack the newer name (ClocksEventReasons).
	if bits, status := dev.GetCurrentClocksThrottleReasons(); status == nvml.SUCCESS {
		g.clocksReasons = bits
	}
	return g
}
