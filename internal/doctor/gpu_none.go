//go:build !cgo || !linux

package doctor

// askNVML cannot, without cgo.
func askNVML() driver {
	return driver{problem: "this binary was built without cgo and cannot ask NVML"}
}
