// Package bench measures ecrec: every figure is measured in a run of this binary and printed with its
// machine, command and spread.
//
// # Method
//
// A figure is the median of several repeats, printed with the least and the greatest. Alternatives
// are measured in turn within one run (A B A B ...), so that a ratio holds if the machine's speed
// drifts. A ratio is the median of the ratios of each turn, with the 95 % interval of the package
// paired and the number of pairs. The tests run each benchmark with tiny sizes, so that it keeps
// working.
//
// # Bars
//
// A benchmark has its bars as data (Bar): a figure, the number of it that is judged, the bound, the
// settings, and the sentence that sets it. A bar of an interval holds if the judged end is within
// the bound, and misses if the whole interval is beyond it. It is not shown if the interval holds
// the bound, or if there are too few pairs. Every report judges the bars of its settings.
//
// # Records
//
// A report has the build, the settings, the machine with its memory and the disk of its files, and
// the load while the benchmark ran. The share of others is the busy time of all cores in /proc/stat
// less that of the benchmark's processes; without /proc it is unknown. Its children count as its
// processes; a child of a killed process does not. Work that the kernel charges to no process counts
// as others': interrupts, and its own threads, which write files back and have a share of their own
// in the record. Each figure has its kind of evidence (Evidence).
//
// # Stops
//
// A signal ends a benchmark between two turns, or between two calls of a kernel. The report is then
// that of the complete turns, and Incomplete is set.
//
// # Settings
//
// A benchmark declares its settings: name, default, accepted values, meaning (Setting). Parsing,
// help and completion read these declarations.
//
// # Units
//
// Times are in milliseconds, or nanoseconds for one row or sample. Rates are per second, sizes in
// bytes. 1 GB is 1e9 bytes and 1 GFLOP is 1e9 operations; a fused multiply-add counts as two.
//
// # References of kernels
//
// Matrix products are compared with OpenBLAS, opened at run time and named with its build. Row
// operations are compared with this machine's sequential copies and random reads (one word of each
// cache line of the same rows): GB/s of another machine prove nothing.
//
// # Limits of training
//
// A training step is compared with two limits of the machine, measured in the same run on the same
// threads: FMAs in registers before each block of steps, and once a copy of an array that no cache
// holds, in bytes read and written.
// The bytes of a step are those of the operands of its operations (cost); caches may save some.
//
// # Codes
//
// Every shard is 1 MiB of consecutive rows. An operation runs over all of them, with one call per
// row. Rows as long as a shard show the limit of batching. GB/s count the k rows of a stripe for
// encode and decode, the changed rows for delta (their XOR and its r folds), and the copied bytes
// for memcpy. All results are checked once before they are timed.
//
// # Overhead of a code
//
// Blocks of steps with and without the code take turns in one run. Each block is a whole number of
// epochs. A figure is the median of the ratios of neighbouring blocks, of wall-clock time and of
// the process's CPU time. All rows and parities are touched before, as in a long run. The cost of a
// checkpoint every T is the time for which training stops, divided by T (ECRec, fig. 5).
//
// # Recovery
//
// Ranks of real processes are killed by SIGKILL in turn, at given steps. The digest must be that of
// a run without a loss. Times are from the moment that a survivor detects the loss to the end of
// each phase (train.Recovery). Throughput is computed from the end times of rank 0's steps;
// replayed steps count, since they show the speed. A rank is killed once the job has been fully
// redundant for 50 steps, so that recoveries do not overlap. Normal is the speed of 50 steps before
// a loss and of 50 after the rebuild: the speed of a shared machine changes within seconds. The
// memory traffic of a rebuild is computed from the bytes that it read and produced, and compared
// with the copy rate of one core.
//
// # Rebuild
//
// In memory: owners of one group, a thread each, have rows that were written. One is replaced and rebuilt, in turn with a bare loop,
// which copies as many rows twice, adds them up, and writes the sums to memory that was never touched. It draws no initial weights,
// lists nothing and waits for no other rank. The share of CPU time compares them also where cores are shared. Then jobs, as above, one
// for each value of ec.rebuild_rate: the rate is what a lost rank rebuilt on average from the survey on, and the throughput meanwhile
// that of the steps from the first one to the last row, beside the normal one around it.
//
// # Protection and faults, by size
//
// Sizes of ECRec's models are divided by a scale, and with them every time that belongs to the size: the time between checkpoints, the
// moment of a failure. Ids are of the law tails, so that the popularity of rows has one shape at every size and scale. Protection measures
// training without a failure: the ranks are in one process, with emulated links, computing and store. Faults kills ranks of real processes.
// Its times are from the loss, as the launcher recorded it. Checkpoints of both have all rows, and training waits for them. It is an error
// if one lacks a row.
//
// # Servers of rows
//
// One rank holds the rows, and others train: all stores run on one loop, on the cores of one machine. Trainers wait in place of a pass on a
// GPU, and compute two small layers. Stores that are compared begin without rows. A first use reads nothing, so the caches of short jobs are
// chosen by the share of rows that is read, not by their bytes.
//
// # Messages of Python
//
// A script of this package runs in the Python that is installed, and measures itself there. A module that is not installed has no figure.
//
// # Collectives
//
// A world of processes measures together, one rank each. The figure of an operation is the time of
// a loop of operations on the slowest rank. algbw is bytes / time. busbw is algbw times the share
// of the bytes that a rank must move in any algorithm, as defined by nccl-tests. It
// is comparable to the speed of a link:
//
//	all_reduce    2 (n-1)/n    bytes: the buffer
//	all_to_all_v    (n-1)/n    bytes: all that a rank sends, with its own part
//	all_gather_v    (n-1)/n    bytes: the result on a rank
//	broadcast             1    bytes: the buffer
//
// These are the columns of nccl-tests. Those of OSU are also available: Avg, Min and Max of the
// ranks' average times, and P50, the median of all ranks' loops. #wrong counts the wrong elements
// of an operation before the loops: values are integers whose sums are exact, compared with ==.
//
// Transports take turns within a run. Shared memory is compared with Open MPI: a C program of ours,
// compiled with mpicc, runs the same loops in turn. With transport=mpi our collectives are measured
// over MPI, in turn with shm and tcp between the same processes; the columns mpi and ratio then
// compare these with MPI. The launcher chooses the cores of the processes. All connections stay
// open, and the MPI engine polls for messages every 200 us while other transports are measured.
package bench
