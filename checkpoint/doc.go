// Package checkpoint saves a whole model to a folder and loads it again, on any
// number of ranks.
//
// # Terms
//
// A checkpoint is a folder step-%012d. In it
//
//	rows-%05d.safetensors   one for each rank that wrote it: touched, U64 (words),
//	                        bit s%64 of word s/64 set where its slot s is touched,
//	                        and rows, F32 (rows, width + state), the touched rows
//	                        with their optimizer state in the order of their slots.
//	                        Slot s of rank o of N is global row s*N + o.
//	dense.safetensors       the dense tensors by name, and, where the optimizer has
//	                        state, state.K.NAME, its K-th value per weight
//	history.bin             what the run wants to remember; its own format
//	manifest.json           step, ranks, model, and bytes and XXH3 of each file;
//	                        with a sum of its own
//
// Untouched rows are not there: they are drawn from the model's seed. Samples are
// a function of the step, so the step is the position in the data.
//
// # Saving
//
// One rank calls Begin, which makes the folder step-X.tmp-GENERATION and removes
// those of dead runs. After that every rank writes its file, at once with the
// others, and makes it durable. Their Parts are plain data, so they can come from
// other processes to the rank that calls Commit: it writes the manifest and makes
// the checkpoint visible by one rename; only then older ones go. A checkpoint
// that has its name is therefore whole, and a crash at any point leaves the one
// before it. Rows are copied a block at a time while the block before is on its
// way to the disk: memory is a few MiB for each rank.
//
// # Loading
//
// Find looks for the newest checkpoint whose manifest and files fit together. Sums
// of rows are checked while they are read, so a bad sum comes when some rows are
// already stored: discard them (shard.Reset) and go on with the one before. With
// the number of ranks that wrote it a rank reads its own file only. Else it reads
// the files that hold any of its rows (of N files and M ranks, every
// gcd(N, M)-th), each whole, because its rows lie evenly spread in them.
//
// # Invariants
//
//   - Nothing under a checkpoint's name is ever written to.
//   - What Find or Open returned is of a known format. Check says whether it is
//     of this model.
//   - Every byte that is loaded has been compared with a sum before the load
//     succeeds.
//
// # Never
//
// The package talks to no other rank and knows no clock: when to save, and that
// all ranks do, is the trainer's. It never reads what history.bin means.
package checkpoint
