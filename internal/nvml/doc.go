// Package nvml asks NVIDIA's management library, by go-nvml, how a GPU is doing. It is an edge,
// and the only place that starts the library: after an Init that failed nothing of go-nvml may
// be called, as its symbols are not there, and the process would end.
package nvml
