package kernels

import "github.com/ecrec/ecrec/internal/cuda"

// leastFree is the free memory of a GPU, in bytes, with which PrepareCUDA leaves it open.
const leastFree = 1 << 30

// PrepareCUDA does early the part of NewCUDA that takes most of its time: it starts the driver and opens
// this machine's GPU. That takes some 500 MB of the GPU's memory until the process ends.
// PrepareCUDA opens no GPU of several, since the caller's rank decides which one it will use, nor
// one with less than 1 GiB free. It reports whether the GPU is open.
func PrepareCUDA() bool {
	driver, err := cuda.Open()
	if err != nil {
		return false
	}
	if n, err := driver.Count(); err != nil || n != 1 {
		return false
	}
	ctx, err := driver.Context(0)
	if err != nil {
		return false
	}
	if free, err := ctx.Free(); err != nil || free < leastFree {
		ctx.Close()
		return false
	}
	return true
}
