package exporter

import (
	"bytes"
	"math"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ecrec/ecrec/train"
)

// processFigures is the collector of a process's figures.
type processFigures struct{ e *Exporter }

// Describe implements prometheus.Collector. It describes nothing: the set of figures depends on the
// run.
func (f processFigures) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f processFigures) Collect(ch chan<- prometheus.Metric) {
	m, to := f.e.o.Meter, sink(ch)
	to.sendValue(figProcess, 1, f.e.o.Node)
	to.sendValue(figProcessRanks, float64(m.Ranks.Load()))
	for c := range train.Classes {
		to.sendValue(figMovedRows, float64(m.Rows[c].Load()), c.String())
		to.sendValue(figMovedBytes, float64(m.Bytes[c].Load()), c.String())
	}
	to.sendValue(figMissingRows, float64(m.MissingRows.Load()))
	to.sendValue(figMissingParity, float64(m.MissingParities.Load()))
	to.sendValue(figRowMemory, float64(m.RowBytes.Load()))
	to.sendValue(figParityMemory, float64(m.ParityBytes.Load()))
	if n, ok := resident(); ok {
		to.sendValue(figResident, float64(n))
	}
	if s, ok := f.e.gpu.Load().Latest(); ok {
		to.sendValue(figGPUMemory, float64(s.Used))
		if !math.IsNaN(s.Busy) {
			to.sendValue(figGPUBusy, s.Busy)
		}
	}
}

// resident returns the resident memory of this process.
func resident() (n int64, ok bool) {
	text, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}
