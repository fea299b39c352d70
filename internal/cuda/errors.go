package cuda

import "fmt"

// Missing is the error that a library, or a function of it, is missing: CUDA cannot be used
// here, and nothing was started.
type Missing struct {
	Library string
	Reason  string
}

// Driver reports whether there is no driver, and so no GPU at all.
func (e *Missing) Driver() bool { return e.Library == driverName }

func (e *Missing) Error() string {
	if e.Driver() {
		return "no NVIDIA driver (" + e.Reason + ")"
	}
	return e.Library + ": " + e.Reason
}

// Failure is an error that a function of the driver returned.
type Failure struct {
	Call   string
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Reason string
}

func (e *Failure) Error() string { return fmt.Sprintf("CUDA: %s: %s (%s)", e.Call, e.Name, e.Reason) }

// NoMemory reports whether the GPU was out of memory.
func (e *Failure) NoMemory() bool { return e.Name == "CUDA_ERROR_OUT_OF_MEMORY" }

// Rejected is the error for source text that does not compile.
type Rejected struct {
	Arch string
	Log  string
}

func (e *Rejected) Error() string { return fmt.Sprintf("NVRTC for %s: %s", e.Arch, e.Log) }

// archOf returns the name of an architecture.
func archOf(major, minor int) string { return fmt.Sprintf("sm_%d%d", major, minor) }
