// Package nvml reads the state of a GPU from NVIDIA's management library, through go-nvml. It
// is an edge to C, and the only place that starts the library. After a failed Init no other
// function of go-nvml may be called: its symbols are missing, and the process would end.
package nvml
