// Package config reads, checks and writes the run config, a TOML file.
//
// # Terms
//
// A key is a dotted TOML path, such as "train.global_batch". A set is a
// "key=value" from the command line that overrides the file. The resolved config
// has defaults filled in, names expanded and paths absolute. A run writes it to its
// output folder, and loading that file gives the same Config.
//
// # Invariants
//
//   - A Config that Load returns is complete and consistent, and this build can run
//     it: no code after Load checks it again.
//   - Every error of Load satisfies errors.Is(err, ErrInvalid) and is one line
//     with the place (file:line or the --set), the key, the mistake and its remedy.
//   - Every documented key parses, also those of parts that this build does not
//     have yet; supported.go lists them all, and Load refuses them.
//   - Every other key has an effect: a test of the command line changes each and looks for it.
//
// Sizes are bytes, durations are time.Duration, rows and steps are counts.
//
// The package opens no file except the config, which may be a pipe. Package data checks that
// the data exists, and package report that the output folder can be written.
package config
