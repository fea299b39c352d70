package exporter

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// figure is a metric.
type figure struct {
	name   string
	kind   prometheus.ValueType
	labels []string
	help   string
	desc   *prometheus.Desc
}

// figures lists all metrics except the histograms, in the order of their definition.
var figures []*figure

func define(kind prometheus.ValueType, name, help string, labels ...string) *figure {
	f := &figure{name: "ecrec_" + name, kind: kind, help: help, labels: labels}
	f.desc = prometheus.NewDesc(f.name, help, labels, nil)
	figures = append(figures, f)
	return f
}

func gauge(name, help string, labels ...string) *figure {
	return define(prometheus.GaugeValue, name, help, labels...)
}

func counter(name, help string, labels ...string) *figure {
	return define(prometheus.CounterValue, name, help, labels...)
}

// The figures of the job.
var (
	figInfo    = gauge("info", "Always 1.", "version", "model", "device", "lineage")
	figRunning = gauge("running", "1 while the run is in progress, then 0.")
	figFailed  = gauge("failed", "1 if the run has failed, else 0.")
	figStart   = gauge("start_time_seconds", "Unix time at which the process that exports the job's metrics began to train.")
	figPlanned = gauge("steps_planned", "Last step of the run; absent while a run without a last step trains.")
	figStep    = gauge("step", "The last completed step.")
	figSamples = counter("samples_total", "Samples trained, over all ranks.")
	figLoss    = gauge("loss", "Mean training loss over the steps of the last line of metrics.jsonl; NaN if the run diverged.")
	figStage   = counter("stage_seconds_total",
		"Time in each stage of a step on rank 0; read, plan and delayed overlap with the other stages.", "stage")
	figEvalStep = gauge("eval_step", "Step of the last evaluation.")
	figLogloss  = gauge("eval_logloss", "Logloss of the last evaluation.")
	figAUC      = gauge("eval_auc", "AUC of the last evaluation.")

	figRanks      = gauge("ranks", "Number of ranks of the job.")
	figRebuilding = gauge("ranks_rebuilding", "Ranks that are still rebuilding lost rows.")
	figLeft       = gauge("rebuild_left_bytes", "Bytes of rows and parities of all ranks that are lost and not rebuilt yet.")
	figRate       = gauge("rebuild_bytes_per_second", "Rate of the rebuild under way, of all ranks; 0 if there is none.")
	figGroups     = gauge("groups", "Erasure-coding groups of ranks.")
	figNoSpare    = gauge("groups_without_spare", "Erasure-coding groups that cannot survive another loss.")
	figSurvivable = gauge("losses_survivable", "Number of simultaneous rank losses that every group survives.")
	figSpares     = gauge("spares", "Spare processes ready to replace a lost one.")
	figLosses     = counter("losses_total", "Processes lost, by cause.", "cause")
	figRecoveries = counter("recoveries_total", "Losses that have been fully rebuilt.")
	figRedone     = counter("steps_redone_total", "Steps rolled back by recoveries.")
	figDecoded    = counter("rows_decoded_total", "Rows and parities rebuilt by recoveries.")

	figCommits    = counter("commits_total", "Commits.")
	figCommitStep = gauge("last_commit_step", "Step of the last commit.")
	figDurable    = gauge("durable_step", "Last step whose updates survive the loss of all processes.")
	figStreamed   = gauge("streamed_step", "Last step that the topic of stream.to has.")
	figCommitTime = gauge("last_commit_timestamp_seconds", "Unix time of the last commit.")
	figSaves      = counter("checkpoints_total", "Attempts to save a checkpoint, by result.", "result")
	figSaveStep   = gauge("last_checkpoint_step", "Step of the last checkpoint.")
	figSaveTime   = gauge("last_checkpoint_timestamp_seconds", "Unix time of the last checkpoint.")
)

// The figures of each process.
var (
	figProcess      = gauge("process_info", "Always 1.", "node")
	figProcessRanks = gauge("process_ranks", "Number of ranks hosted by the process.")
	figMovedRows    = counter("moved_rows_total",
		"Rows and row gradients received by the process's ranks, by class; for class parity: deltas sent.", "class")
	figMovedBytes    = counter("moved_bytes_total", "Bytes of the rows in moved_rows_total.", "class")
	figMissingRows   = gauge("missing_rows", "Lost rows not yet rebuilt.")
	figMissingParity = gauge("missing_parities", "Lost parities not yet rebuilt.")
	figRowMemory     = gauge("rows_memory_bytes", "Memory of the process's rows with optimizer state, once all rows are touched.")
	figParityMemory  = gauge("parity_memory_bytes", "Memory of the parities that the process holds, once all rows are touched.")
	figResident      = gauge("resident_memory_bytes", "Resident memory of the process.")
	figGPUMemory     = gauge("gpu_memory_used_bytes", "Memory in use on the process's GPU by all processes.")
	figGPUBusy       = gauge("gpu_utilization_ratio", "Fraction of time in which kernels ran on the process's GPU.")
)

// stepBuckets are 1 ms to 66 s, recoveryBuckets 10 ms to 82 s.
var (
	stepBuckets     = prometheus.ExponentialBuckets(0.001, 2, 17)
	recoveryBuckets = prometheus.ExponentialBuckets(0.01, 2, 14)
)

// sink receives the values of figures.
type sink chan<- prometheus.Metric

func (s sink) sendValue(f *figure, value float64, labels ...string) {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "?")
	}
	s <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// truth returns 1 or 0.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
