// Package bench measures ecrec and reports what it measured: every figure comes
// from a run of this binary and is printed with its machine, command and spread.
//
// # Method
//
// A figure is the median of several repeats, with the least and the greatest
// beside it. What is compared is measured in turn within one run (A B A B ...),
// so that a ratio holds when the machine's speed drifts. Each benchmark also runs
// tiny inside the tests, so that it cannot rot.
//
// # Units
//
// Times are milliseconds, or nanoseconds for one row or sample; rates per second,
// sizes bytes; 1 GB is 1e9 bytes, 1 GFLOP 1e9 operations, a fused multiply-add
// counts as two.
//
// # What kernels are held against
//
// Matrix products: OpenBLAS, opened at run time and named with its build. Rows:
// this machine's own copy in order and its own random reads, one word of each
// cache line of the same rows, because GB/s from another machine prove nothing.
//
// # Codes
//
// Every shard is 1 MiB of rows side by side, and an operation goes through all of
// them, one call for each row: rows as long as a shard are what batching can give.
// GB/s count the k rows of a stripe for encode and decode, the rows that change for
// delta (their XOR and its r folds), what is copied for memcpy. All are checked once
// before they are timed.
//
// # Overhead of a code
//
// Blocks of steps with the code and without it take turns in one run, each of whole
// epochs; a figure is the median of the ratios of neighbours, of wall-clock time and
// of the process's CPU time. All rows and parities have been touched before, as they
// are in a long run. A checkpoint every T costs the time that training stops for it,
// over T (ECRec, fig. 5).
//
// # Recovery
//
// Ranks of real processes die by SIGKILL, at steps that are told, each in its turn; the
// digest must be that of a run in which none does. Times count from when a survivor
// notices the loss to the end of each phase (train.Recovery). Throughput comes from when
// rank 0's steps ended; redone ones count, since they show the speed. A rank is killed when
// all has been whole for 50 steps, so that no recovery meets the one before; normal is the
// speed of 50 steps before a loss and of 50 after all was whole, as a shared machine's
// changes within seconds. What a rebuild moves through memory is counted from the bytes that
// it read and made, not measured, and held against what one core copies.
//
// # Collectives
//
// A world of processes measures together, one rank each. The figure of an
// operation is the time of a loop of them, one after the other, by the slowest
// rank's clock. algbw is bytes / time; busbw is algbw times the share of those
// bytes that a rank must move in any algorithm, as nccl-tests defines it
// (PERFORMANCE.md there), so it compares with the speed of a link:
//
//	all_reduce    2 (n-1)/n    bytes: the buffer
//	all_to_all_v    (n-1)/n    bytes: what a rank sends in all, its own part too
//	all_gather_v    (n-1)/n    bytes: what a rank has in the end
//	broadcast             1    bytes: the buffer
//
// Those are nccl-tests' columns. OSU's are there too: Avg, Min and Max of what each
// rank took for an operation on average, and P50, the median of all ranks' loops.
// #wrong counts the elements that an operation before the loops gave and that are not
// what they must be: values are whole numbers whose sums are exact, compared with ==.
//
// Transports take turns within a run. Through shared memory they are held against
// Open MPI: a C program of ours, compiled with mpicc, runs the same loops in turn with
// them. Over the transport mpi it is our collectives that are measured, and shm and tcp
// beside them, between the same processes: columns mpi and ratio then hold that up
// against the transport mpi. Whoever started the processes says on which cores they run.
// They all stay connected, and what carries messages by MPI looks for some every 200 us
// while others have their turn.
package bench
