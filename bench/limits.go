package bench

import (
	"runtime"
	"sync"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// peakRounds is odd, so that the median is one of the rates.
const peakRounds = 3

// peak is the rate of FMAs in registers on all threads at once, in operations
// per second: the median of a few rounds. 0 threads: one per core.
func peak(threads int, tiny bool) float64 {
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	rounds := 20_000_000
	if tiny {
		rounds = 1000
	}
	var rates []float64
	for range peakRounds {
		var wait sync.WaitGroup
		var flops float64
		begin := time.Now()
		for i := range threads {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if n := kernels.PeakLoop(rounds); i == 0 {
					flops = n
				}
			}()
		}
		wait.Wait()
		rates = append(rates, float64(threads)*flops/time.Since(begin).Seconds())
	}
	return figure("", "", rates).Median
}

// bandwidth is the rate at which a number of threads copy a large array to another, in bytes read
// and written per second as STREAM counts them (McCalpin, 1995): the median of a few rounds.
func bandwidth(threads int, tiny bool) (float64, error) {
	size := 256 << 20
	if tiny {
		size = 1 << 20
	}
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		return 0, err
	}
	both, err := dev.Alloc(2*size, kernels.Working)
	if err != nil {
		return 0, err
	}
	defer dev.Free(both)
	s := dev.Stream(threads)
	defer s.Close()
	dst, src := both.Slice(0, size), both.Slice(size, size)
	s.Zero(both) // takes the memory from the system
	var rates []float64
	for range 5 {
		begin := time.Now()
		s.Copy(dst, src)
		rates = append(rates, 2*float64(size)/time.Since(begin).Seconds())
	}
	return figure("", "", rates).Median, nil
}
