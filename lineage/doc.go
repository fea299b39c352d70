// Package lineage identifies the run that a checkpoint belongs to.
//
// # Terms
//
// A recipe defines a run's result: each key of the config that affects it, with its value as
// TOML, and the identity of the data (data.Identity) in place of its paths. It holds no
// path, host or time, so a run that moves keeps its recipe.
//
// A fork is the place where a run began with the state of another run: the lineage of that
// run, and the step after which the fork left it. A lineage is an id of 128 bits: the hash
// of the recipe and of the chain of forks, and of the offsets at which the run begins in a topic
// of samples, unless all are 0. Runs of one lineage have the same bits after the same step.
//
// # Keys
//
// The table in keys.go gives each key of the config its class. A test compares it with the
// config, so that no new key is missing:
//
//	fixed    defines the result and the content of a checkpoint: no run can resume if it differs
//	defines  defines the result
//	noted    changes no bit of the model, but the length of the run or its evaluations;
//	         part of the recipe, not of the lineage
//	free     changes no bit, or only the place and manner of the run; not part of the recipe
//
// A key that a later version adds to a recipe must default to the behaviour of the versions
// before: a recipe without the key means this default.
//
// # Invariants
//
//   - A recipe is sorted by key, and equal on all processes of a job.
//   - A run that resumes with equal defining keys keeps its lineage, even if a later version
//     would compute another hash.
//
// The package opens no file and is independent of checkpoints.
package lineage
