//go:build !linux

package kernels

// Pages have the system's usual size, and are provided one by one.

func adviseHuge([]byte)     {}
func advisePopulate([]byte) {}
