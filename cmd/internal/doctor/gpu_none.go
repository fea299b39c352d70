//go:build !cgo || !linux

package doctor

// queryNVML reports that NVML needs cgo.
func queryNVML() driver {
	return driver{problem: "this binary was built without cgo and cannot query NVML"}
}
