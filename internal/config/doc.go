// Package config reads, checks and writes the run config, a TOML file.
//
// # Terms
//
// A key is a dotted TOML path, "train.global_batch" say. A set is a
// "key=value" from the command line that overrides the file. The resolved
// config is what a run really uses: defaults filled in, names expanded, paths
// absolute; a run writes it to its output folder, and loading that file again
// gives the same Config.
//
// # Invariants
//
//   - A Config that Load returns is complete and consistent, and asks only for
//     what this build does: nobody after Load checks it again.
//   - Every error of Load satisfies errors.Is(err, ErrInvalid) and is one line
//     that says where (file:line or the --set), which key, what is wrong and
//     what to do.
//   - Every documented key parses, also those of parts that this build does not
//     have yet; supported.go holds all checks of the latter kind.
//
// Sizes are bytes, durations are time.Duration, rows and steps are counts.
//
// The package never opens any file but the config itself: whether data exists
// and an output folder can be written is for data and report to say.
package config
