package nvml

// Sample is the load of a GPU at one time, by all processes that use it.
type Sample struct {
	Used int64   // bytes of memory
	Busy float64 // the share of about the last second in which kernels ran; NaN: unknown
}

// None is the error that there is no library, with the reason.
type None struct{ Reason string }

func (e *None) Error() string { return e.Reason }
