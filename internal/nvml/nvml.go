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

// Open starts the library. Close ends its use. A *None says that there is no driver, other
// errors that it does not work.
func Open() (close func(), err error) {
	named.Do(func() { // as the others of NVIDIA's, it is looked for where the user says
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

// Known is whether the driver's library, which is open, has a function; to call another ends
// the process.
func Known(function string) bool { return nvml.Extensions().LookupSymbol(function) == nil }

// every is how often a Watch looks: as often as drivers measure, about.
const every = time.Second

// Watch looks at a GPU now and then.
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
	w.look(dev)
	go func() {
		defer close(w.ended)
		for tick := time.NewTicker(every); ; {
			select {
			case <-w.stop:
				tick.Stop()
				return
			case <-tick.C:
				w.look(dev)
			}
		}
	}()
	return w, nil
}

func (w *Watch) look(dev nvml.Device) {
	memory, status := dev.GetMemoryInfo()
	if status != nvml.SUCCESS {
		return
	}
	s := &Sample{Used: int64(memory.Used), Busy: math.NaN()}
	if busy, status := dev.GetUtilizationRates(); status == nvml.SUCCESS { // not of a part of a GPU
		s.Busy = float64(busy.Gpu) / 100
	}
	w.latest.Store(s)
}

// Latest is what was seen last, not ok where nothing was.
func (w *Watch) Latest() (s Sample, ok bool) {
	if w == nil || w.latest.Load() == nil {
		return s, false
	}
	return *w.latest.Load(), true
}

// Close ends the watch. Where the driver does not answer it leaves the library open.
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
