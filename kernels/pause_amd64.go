package kernels

// pause rests the core for a moment in a spin loop.
//
//go:noescape
func pause()
