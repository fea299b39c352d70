//go:build !linux

package bench

// watchMemory sends 0 when over is closed: the memory of processes is not known here.
func watchMemory(_ int, over <-chan struct{}, most chan<- float64) {
	<-over
	most <- 0
}
