package nvml

// Sample is what a GPU does at a time, for all processes that use it.
type Sample struct {
	Used int64   // bytes of memory
	Busy float64 // the part of the last second, about, in which kernels ran; NaN: not known
}

// None says why there is nobody to ask.
type None struct{ Reason string }

func (e *None) Error() string { return e.Reason }
