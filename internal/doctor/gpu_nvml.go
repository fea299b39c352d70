//go:build cgo && linux

package doctor

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// askNVML asks NVML. After a failed Init nothing of NVML may be called: its symbols
// are not there, and the process would end.
func askNVML() (d driver) {
	switch status := nvml.Init(); status {
	case nvml.SUCCESS:
		defer nvml.Shutdown()
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return driver{problem: "no NVIDIA driver"}
	default:
		return driver{problem: fmt.Sprintf("NVML: Init: error %d; does nvidia-smi work?", int(status)), broken: true}
	}
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
	if known("nvmlDeviceGetRemappedRows") {
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

// known is whether the driver's NVML has a function; to call another ends the process.
func known(function string) bool { return nvml.Extensions().LookupSymbol(function) == nil }
