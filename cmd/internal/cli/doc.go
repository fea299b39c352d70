// Package cli is the command line: it parses flags, calls the package that does the work, and
// turns the outcome into messages and an exit code.
//
// # Exit codes
//
//	0    done
//	1    the run or a check of the doctor failed
//	2    bad usage, config or data
//	130  stopped by SIGINT, with progress saved
//	143  stopped by SIGTERM, with progress saved
//
// # Invariants
//
//   - An error is one line on stderr: the problem, the place, and the remedy.
//   - A run writes nothing (except record files converted from text) before its config is checked,
//     its data are open, and its output folder is known to be writable.
//   - The first SIGINT or SIGTERM requests a stop: a run finishes its step, evaluates and saves.
//     The second ends the process at once.
//
// In a training job of several processes each of them runs this command line; package launcher
// assigns their roles. Workers report their errors to the supervisors, which print one.
//
// In the process that hosts rank 0 a session follows the job. It has an observer for each output:
// events, metrics, run folder, TensorBoard, console.
//
// Results go to stdout, errors to stderr. The package computes nothing.
package cli
