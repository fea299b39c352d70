//go:build !linux

package env

import "runtime"

// ShareOfCores returns this process's share of the cores, among it and other processes.
func ShareOfCores(others []int) float64 { return float64(runtime.NumCPU()) / float64(1+len(others)) }
