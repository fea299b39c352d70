package kernels

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/cuda"
)

// leastFree is the free memory of a GPU, in bytes, with which PrepareCUDA opens it.
const leastFree = 2 << 30

// prepared is the GPU that PrepareCUDA has opened, for the first NewCUDA: nil before that, and
// noneWanted from that NewCUDA on.
var prepared atomic.Pointer[preparedGPU]

type preparedGPU struct {
	ctx  *cuda.Context
	code *cudaCode
}

var noneWanted = new(preparedGPU)

// takePrepared returns what PrepareCUDA has opened, nil if it has opened nothing yet.
func takePrepared() (*cuda.Context, *cudaCode) {
	if p := prepared.Swap(noneWanted); p != nil {
		return p.ctx, p.code
	}
	return nil, nil
}

// PrepareCUDA does early the parts of NewCUDA that take most of its time: it starts the driver, opens this
// machine's GPU and loads the kernels. That takes some 500 MB of the GPU's memory until the process ends. One
// process of a machine at a time does so, because others that use the GPU wait meanwhile.
//
// It opens no GPU of several, since the caller's rank decides which one it will use, nor one with
// less than 2 GiB free. NewCUDA may be called meanwhile, and then opens the GPU itself. It reports whether the GPU is open.
func PrepareCUDA(sleep func(time.Duration)) bool {
	for cuda.Built {
		turn, err := takeTurn()
		if err == nil {
			defer turn.Close()
			return openPrepared()
		}
		if prepared.Load() != nil || !errors.Is(err, syscall.EADDRINUSE) {
			return false
		}
		sleep(50 * time.Millisecond)
	}
	return false
}

// takeTurn takes the turn to open GPUs, which is a socket that one process of the machine can have. It is free when that ends.
func takeTurn() (net.Listener, error) {
	return net.Listen("unix", fmt.Sprintf("@ecrec-opens-gpu-%d", os.Getuid()))
}

func openPrepared() bool {
	if prepared.Load() != nil {
		return false
	}
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
	if free, err := ctx.Free(); err == nil && free >= leastFree {
		if code, err := loadCUDA(ctx); err == nil && prepared.CompareAndSwap(nil, &preparedGPU{ctx, code}) {
			return true
		}
	}
	ctx.Close()
	return false
}
