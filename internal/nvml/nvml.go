//go:build cgo && linux

package nvml

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/ecrec/ecrec/internal/cuda"
)

var named sync.Once

// Open starts the library; close ends its use. The error is a *None if there is no driver.
// Other errors mean that the driver does not work.
func Open() (close func(), err error) {
	named.Do(func() { // like NVIDIA's other libraries, it is searched in the user's folders first
		if path := cuda.Named("libnvidia-ml.so.1"); path != "" {
			_ = nvml.SetLibraryOptions(nvml.WithLibraryPath(path)) // it is not loaded yet
		}
	})
	switch status := nvml.Init(); status {
	case nvml.SUCCESS:
		return func() { nvml.Shutdown() }, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, &None{"no NVIDIA driver"}
	default:
		return nil, fmt.Errorf("NVML: Init: error %d; does nvidia-smi work?", int(status))
	}
}

// HasFunction reports whether the driver's library, which must be open, has a function. Calling
// a missing function ends the process.
func HasFunction(function string) bool { return nvml.Extensions().LookupSymbol(function) == nil }

// every is the time between samples: about the time between measurements of the driver.
const every = time.Second

// Watch samples the state of a GPU regularly.
type Watch struct {
	latest atomic.Pointer[Sample]
	stop   chan struct{}
	ended  chan struct{}
	close  func()
}

// Start watches the GPU with a UUID.
func Start(uuid [16]byte) (*Watch, error) {
	closeIt, err := Open()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	dev, status := nvml.DeviceGetHandleByUUID(name)
	if status != nvml.SUCCESS {
		closeIt()
		return nil, fmt.Errorf("NVML: %s: %s", name, status.Error())
	}
	w := &Watch{stop: make(chan struct{}), ended: make(chan struct{}), close: closeIt}
	w.takeSample(dev)
	go func() {
		defer close(w.ended)
		for tick := time.NewTicker(every); ; {
			select {
			case <-w.stop:
				tick.Stop()
				return
			case <-tick.C:
				w.takeSample(dev)
			}
		}
	}()
	return w, nil
}

func (w *Watch) takeSample(dev nvml.Device) {
	memory, status := dev.GetMemoryInfo()
	if status != nvml.SUCCESS {
		return
	}
	s := &Sample{Used: int64(memory.Used), Busy: math.NaN()}
	if busy, status := dev.GetUtilizationRates(); status == nvml.SUCCESS { // not available for a part of a GPU
		s.Busy = float64(busy.Gpu) / 100
	}
	w.latest.Store(s)
}

// Latest returns the last sample. ok is false if there is none.
func (w *Watch) Latest() (s Sample, ok bool) {
	if w == nil || w.latest.Load() == nil {
		return s, false
	}
	return *w.latest.Load(), true
}

// Close ends the watch. If the driver does not respond, it leaves the library open.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	close(w.stop)
	select {
	case <-w.ended:
		w.close()
	case <-time.After(every):
	}
}
