// Package event is the format of events.jsonl, the events of a job.
//
// # File
//
// One JSON object per line, in the order of writing. Keys are in the order of the fields of Event;
// a key without a value is omitted. Times are UTC with milliseconds. The time of an event may be
// before the time of writing. Durations are in milliseconds.
//
// A run that continues another in the same folder appends. Its first event is start, or resume if
// it resumes from a checkpoint. The key job identifies the run. The node is that of the lost
// process or ranks for loss and recovered, else that of the writer.
//
// # Events
//
// Names lists the events with their fields:
//
//   - start: the job trains from its first step. members, version, job, spares.
//   - resume: the job trains from a checkpoint. step, path, topic, members, version, job, spares.
//   - loss: a process was lost. step, process, ranks, node, pid, cause, cause_code, generation, replaced_by, spares.
//   - recovered: lost ranks are fully rebuilt. step, ranks, node, committed_step, resume_ms, whole_ms, rebuild_bytes_per_s, spares.
//   - eval: an evaluation. step, process, node, logloss, auc.
//   - checkpoint: a checkpoint was saved. step, process, node, path.
//   - checkpoint_failed: a checkpoint could not be saved. step, process, node, error.
//   - commit: the digest of the whole model at a commit. step, digest.
//   - durable: all updates up to this step survive the loss of all processes (store.path). step.
//   - join: a process joined the running job as a spare. process, node, spares.
//   - returned: a process rejoined and its ranks were moved back to it; recovered follows. process, ranks, generation, replaced_by, spares.
//   - warning: the run continues, but needs attention. cause, cause_code.
//   - stop_requested: a signal asked the job to stop. cause.
//   - end: the job finished, or was stopped with progress saved. step, node, digest, cause.
//   - failed: the job failed. step, node, error.
//
// # Invariants
//
//   - A line is written with one system call to a file opened with O_APPEND.
//   - A process that dies in the middle of a line spoils only that line: the next writer begins a
//     new one, and readers skip lines that are not JSON objects.
//   - A line is at most maxLineBytes long; long texts are cut.
//   - No link is followed, and only regular files are opened.
//
// The package defines the format only. Its users decide which process writes, and when.
package event
