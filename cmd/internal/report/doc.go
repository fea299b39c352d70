// Package report writes the output of a run: the files of its output folder and the lines on the
// terminal.
//
// # Files, in job.out
//
// A run's files are config.toml, metrics.jsonl, summary.json and model.safetensors. A result is a
// model, or a summary with a digest. Another run must not destroy it.
//
//	no result in job.out  config.toml and metrics.jsonl are written when the run begins
//	over a result         they are in unfinished/. The summary is there too if the run fails, or is
//	                      stopped over a finished result; then the model is also there
//	while it trains       .summary.json.new: reserved space for the summary
//	at its end            .model.safetensors.new and the complete summary are written. Then Finish
//	                      renames all files, the summary last
//
// A process that dies between those renames leaves a complete summary under its temporary name.
// The next run in the folder completes the renames.
//
// A run that resumes from a checkpoint appends to the metrics of the run that it continues, after
// the last line up to the checkpoint's step. All runs of a folder append to process-P.log (JSON
// lines, zerolog).
//
// Events (EventLog) are appended to events.jsonl, which all runs of the folder share; to
// metrics.jsonl, as lines with a key event instead of a loss; and to the log of the writing process.
//
// The process with rank 0 holds the lock on run.lock during the run: one run at a time writes to a
// folder. The file names the run.
//
// # Invariants
//
//   - CheckDir leaves no file behind.
//   - A result stays complete and consistent until the files of the next result replace it.
//   - One process redraws lines, and only for a person who watches. Under a launcher it writes lines.
//   - No link is followed, and only regular files are opened.
//   - A line that cannot be written is left out, and the run continues.
//   - Memory is bounded for any number of steps: step times are kept as counts.
//   - JSON has no NaN or infinity: such a loss is null.
//   - No value computed here influences training.
//
// Times are in milliseconds, rates in samples per second of the job.
//
// All functions except those of Quantiles may block on a disk or a terminal. Ranks call them
// inside Env.Do.
package report
