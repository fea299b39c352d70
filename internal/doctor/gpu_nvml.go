//go:build cgo && linux

package doctor

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	opened "github.com/ecrec/ecrec/internal/nvml"
)

// askNVML asks NVML.
func askNVML() (d driver) {
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
		d.gpus = append(d.gpus, askGPU(i))
	}
	return d
}

// askGPU leaves out what this GPU or this driver does not tell.
func askGPU(i int) (g gpu) {
	dev, status := nvml.DeviceGetHandleByIndex(i)
	if status != nvml.SUCCESS {
		return gpu{problem: "NVML: " + status.Error() + "; reset it, or start the machine anew"}
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
	if opened.Known("nvmlDeviceGetRemappedRows") {
		if _, _, pending, failed, status := dev.GetRemappedRows(); status == nvml.SUCCESS {
			g.remapPending, g.remapFailed = pending, failed
		}
	}
	// The newer name, of Events, is not in every driver that is in use.
	if bits, status := dev.GetCurrentClocksThrottleReasons(); status == nvml.SUCCESS {
		g.clocksReasons = bits
	}
	return g
}
