// Package checkpoint saves a model to a folder and loads it again, on any number of ranks.
//
// # Terms
//
// A checkpoint is a folder step-%012d with these files:
//
//	rows-%05d.safetensors   one for each rank that wrote it: touched, U64 (words),
//	                        bit s%64 of word s/64 set if slot s is touched,
//	                        and rows, F32 (rows, width + state), the touched rows
//	                        with their optimizer state in the order of their slots.
//	                        Slot s of rank o of N is global row s*N + o. An increment has
//	                        slots, I32 (rows), in place of touched where that is shorter
//	dense.safetensors       the dense tensors by name, and, if the optimizer has
//	                        state, state.K.NAME, its K-th value per weight
//	history.bin             the run's history, in a format of the trainer
//	recipe.json             the way from a row of data to a sample, in a format of the
//	                        data, if the trainer passes one
//	manifest.json           step, ranks, run, model, and bytes and XXH3 of each file;
//	                        with a sum of its own
//
// Untouched rows are not saved: the model's seed draws them. Samples are a function of the
// step, so the step is the position in the data.
//
// The folder's name ends in the lineage if a checkpoint that cannot be replaced has the plain
// name: one of another lineage, a parent, or any if the file system cannot exchange two names
// (NFS). So the step has a complete checkpoint at any time.
//
// # Manifest
//
// Format 2 names the run of the checkpoint: name, lineage, forks, recipe (package
// lineage). It holds the definition of the run, and no path, host or time. Format 1 named
// no run, and is still read.
//
// A later version may add fields without a new format. A reader ignores unknown fields. It
// refuses a checkpoint with an unknown feature among its needs. The fields recipe and parent were
// added so; a checkpoint without recipe has no recipe.json.
//
// # Increments
//
// A full checkpoint has all touched rows. An increment has the rows that were written since its
// parent, an increment or a full checkpoint in the same folder, which its manifest names with
// the sum of the parent's manifest. All other rows are those of the parent. The dense part, the
// history and the recipe are whole in each. At most MaxIncrements follow a full checkpoint.
//
// A parent is never replaced, and is removed only together with its increments. No increment is
// published if a parent is gone. All readers see the rows of an increment and its parents as
// those of one checkpoint: ReadRows stores them one after the other, and the others merge them
// by slot, with 64 KiB of memory for each file of an increment. Consolidate makes a full
// checkpoint of an increment, byte for byte that of the full save.
//
// # Saving
//
// A run holds the Lock of the folder, so that no other run saves there. One rank calls
// Begin, which creates the folder step-X.tmp-LINEAGE-GENERATION-SESSION and removes the folders of
// dead runs. Then all ranks write their files at the same time, and make them durable. The
// resulting Parts are plain data, which other processes can send to the rank that calls
// Commit. Commit writes the manifest, makes the checkpoint visible by one rename, and then
// removes older ones of its lineage, except parents of those that it keeps. So a checkpoint with
// its final name is complete, and a crash at any point leaves the one before it.
//
// Rows are copied a block at a time while the previous block is written: a rank needs a few
// MiB. A RowWriter leaves it to its caller when to copy how many, so that training can go on
// (package train); the rows are then those of a shard.Pin.
//
// # Loading
//
// Find searches the newest checkpoint whose manifest and files fit together. Sums of rows
// are checked while they are read, so an error may be found after some rows are stored.
// The caller discards them (shard.Reset) and loads the checkpoint before.
//
// If the number of ranks is that of the checkpoint, a rank reads its own file only. If not,
// it reads the files that hold any of its rows: of N files and M ranks, every gcd(N, M)-th.
// It reads these files completely, because its rows are spread evenly over them.
//
// # Invariants
//
//   - A file under a checkpoint's final name is never written again.
//   - Find and Open return checkpoints of a supported format only. Check reports whether
//     the model is that of the run.
//   - Every byte that is loaded has been compared with a sum before the load
//     succeeds.
//
// # Never
//
// The package communicates with no other rank and has no clock: the trainer decides when
// all ranks save, and at which rate. It does not interpret history.bin and recipe.json.
package checkpoint
