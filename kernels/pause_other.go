//go:build !amd64

package kernels

// pause rests the core for a moment in a spin loop.
//
//go:noinline
func pause() {}
