// Package cli is the command line: it reads flags, calls the package that does
// the work, and turns how that went into messages and an exit code.
//
// # Exit codes
//
//	0    done
//	1    the run failed, or a check of the doctor
//	2    bad usage, config or data
//	130  stopped by SIGINT, everything saved
//	143  stopped by SIGTERM, everything saved
//
// # Invariants
//
//   - An error is one line on stderr: what, where, and what to do.
//   - Before the config is checked, the output folder is known to be writable and
//     the data is open, nothing is written (record files made from text excepted).
//   - The first SIGINT or SIGTERM asks for a stop: a run finishes its step,
//     evaluates and saves. The second ends the process at once.
//
// A training job of several processes runs this command line in all of them
// (package launcher says which are which). Those that train report their error to
// the job, which prints one.
//
// Results go to stdout, errors to stderr. The package computes nothing.
package cli
