// Package report writes what a run says: the files of its output folder and the
// lines on the terminal.
//
// # Files, in job.out
//
// config.toml, the resolved config, and process-P.log (JSON lines, zerolog) are
// written when a run is opened; metrics.jsonl grows by one line per log_every
// steps; summary.json is written when the run ends, also when it fails, whole or
// not at all. Opening a run removes an earlier summary.json and model, so that those
// which are there belong to the config beside them. Process 0 holds a lock on its
// log for as long as the run lasts: one run at a time writes to a folder.
//
// # Invariants
//
//   - CheckDir and a failed Open leave nothing behind.
//   - Memory is bounded, however long the run: step times are kept as counts.
//   - JSON holds no NaN or infinity: such a loss is null.
//   - Nothing here enters a number that training produces.
//
// Times are milliseconds, rates samples per second of the whole job.
//
// All calls but those of Quantiles may block on a disk or a terminal: rank code
// makes them inside Env.Do.
package report
