// Package resume chooses the checkpoint from which a run resumes.
//
// # Terms
//
// A candidate is a checkpoint whose manifest can be read. A claim is its relation to
// the run: own, of the same recipe; unnamed, written before checkpoints named their run;
// fork, of another recipe whose differences the user allows; foreign, of another run.
//
// # Rules
//
// `--resume auto` searches checkpoint.dir and takes the newest checkpoint of the run
// itself. Without any checkpoint there the run starts from the beginning, and reports it.
// With only foreign ones it is refused, since its user expects a run that resumes.
// `--resume PATH` takes the newest checkpoint there, whose run must be the same except for
// the keys of --allow. A damaged checkpoint is skipped for the one before it, and reported.
//
// The package reads manifests and nothing else. Package checkpoint loads the checkpoint.
package resume
