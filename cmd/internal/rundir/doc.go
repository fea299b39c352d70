// Package rundir reads the state of a run from the files of its output folder.
//
// It reads files of a run that is writing them, and files that a killed run has left. So incomplete
// lines, missing files and unknown keys are normal. Files are found by name in an fs.FS. The caller
// passes in the state of the folder's lock.
//
// # Sources of figures
//
//   - summary.json: the result. Its figures take precedence over all others.
//   - events.jsonl: when the run began, members, losses, evaluations, checkpoints, the end.
//   - metrics.jsonl: the step, the loss and the rate of a run that has no result yet.
//   - process-P.log: the number of steps, if the config counts epochs.
//   - config.toml: name and settings.
//   - unfinished/: the files of an unfinished run over the result of another. The result above it
//     is then that of the earlier run.
//
// # States
//
//   - running: a process holds the lock.
//   - finished: the last step is complete, and there is a digest.
//   - stopped: a signal ended it before the last step, with progress saved.
//   - failed: it ended with an error.
//   - interrupted: it recorded no end, and no process holds the lock: it was killed.
//   - unknown: it recorded no end, and the lock cannot be checked.
//
// The package writes no files and never waits.
package rundir
