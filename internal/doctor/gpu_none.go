//go:build !cgo || !linux

package doctor

// gpus cannot ask NVML without cgo.
func gpus() []line {
	return []line{{"GPUs", "cannot be told (this binary was built without cgo)"}}
}
