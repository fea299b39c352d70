// Package exporter exports the figures of a run to Prometheus: over HTTP (metrics.listen), in a
// file for node_exporter's textfile collector (metrics.textfile), or both.
//
// # Terms
//
// Each process of a job that hosts ranks has one Exporter, which exports the process's own figures.
// The process that hosts rank 0 also exports those of the job. If rank 0 moves, its new process
// exports them from then on, and the old one stops.
//
// # Ports and files
//
// The first process of a node, by number, listens on the port of metrics.listen, the next
// one on the next port, and so on. Files are numbered in the same way: run.prom, run-1.prom, ...
//
// # Figures of the job
//
// All names begin with ecrec_; every figure has the label run, the name of the job.
//
//	info{version,model,device,lineage}  always 1
//	running, failed                     1 or 0
//	start_time_seconds                  start of the process that exports them
//	step, steps_planned                 the last completed step; the last step of the run, absent while a
//	                                    run without a last step trains
//	step_seconds                        histogram; replayed steps count again
//	stage_seconds_total{stage}          time in each stage of a step, on rank 0
//	samples_total                       samples trained, over all ranks
//	loss                                mean of the steps of the last metrics line; NaN: diverged
//	eval_step, eval_logloss, eval_auc   of the newest evaluation
//	ranks, ranks_rebuilding             all; those that are still rebuilding lost rows
//	rebuild_left_bytes, rebuild_bytes_per_second
//	                                    of all ranks; 0 if nothing is being rebuilt
//	groups, groups_without_spare        erasure-coding groups; those that cannot survive another loss
//	losses_survivable                   simultaneous losses of ranks that every group survives
//	spares                              processes ready to replace a lost one
//	losses_total{cause}                 lost processes, by cause_code of the event
//	recoveries_total                    losses that have been fully rebuilt
//	recovery_seconds{phase}             histogram, from the loss to the end of each phase
//	steps_redone_total                  steps rolled back by recoveries
//	rows_decoded_total                  rows and parities rebuilt by recoveries
//	commits_total                       since this process exports the figures of the job; with or
//	                                    without a code, as the next four
//	last_commit_step, last_commit_timestamp_seconds
//	durable_step                        with store.path
//	streamed_step                       with stream.to
//	checkpoints_total{result}           ok or failed
//	last_checkpoint_step, last_checkpoint_timestamp_seconds
//
// # Figures of each process
//
// They also have the label process, the number of the process in the job.
//
//	process_info{node}                  always 1
//	process_ranks                       ranks that it hosts
//	moved_rows_total{class}, moved_bytes_total{class}
//	                                    received by its ranks: critical (a step waits for it),
//	                                    delayed, rebuild, read (from the disk, with store.tier);
//	                                    sent by them: parity, spill (to the disk, before the log has them)
//	missing_rows, missing_parities      lost and not yet rebuilt
//	rows_memory_bytes, parity_memory_bytes
//	                                    once all rows are touched
//	resident_memory_bytes               of the process
//	gpu_memory_used_bytes, gpu_utilization_ratio
//	                                    absent without a GPU
//
// Over HTTP the go_ and process_ figures of the official client are added.
//
// # Invariants
//
//   - No method blocks on the network, on a disk or on a scrape, since ranks call them. The
//     exceptions are Listen, before training, and AwaitScrape and Close, after it.
//   - Figures of losses, recoveries, evaluations and checkpoints are read from
//     events.jsonl, so that they outlive the process that hosted rank 0.
//   - A textfile is replaced atomically, every few seconds at most.
//   - The last figures stay until Close. AwaitScrape lets a scraper read them.
//   - Scrapers use at most maxConnections file descriptors of the process.
package exporter
