// Times MPI's collectives like collectives_rank.go times those of ecrec:
//
//	collectives ROUNDS WARMUP (OPERATION BYTES ITERATIONS)...
//
// prints for each operation, in order, the microseconds of one: the median over
// rounds of the slowest rank's time for a loop of ITERATIONS, divided by ITERATIONS.
// BYTES is the length of the longer buffer. Operations other than reductions and
// broadcasts split it into equal parts, one for each rank.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int ranks, rank;
static char *src, *dst;
static int *counts, *offsets;

// Aligned, and backed by huge pages if the system has them, like ecrec's buffers.
static char *allocate(size_t bytes) {
    const size_t huge = 2 << 20;
    void *p = NULL;
    bytes = (bytes + huge - 1) / huge * huge;
    if (posix_memalign(&p, huge, bytes) != 0) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void run(const char *operation, int bytes) {
    int part = bytes / ranks;
    if (strcmp(operation, "all_reduce") == 0) {
        MPI_Allreduce(MPI_IN_PLACE, dst, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (strcmp(operation, "all_to_all_v") == 0) {
        MPI_Alltoallv(src, counts, offsets, MPI_BYTE, dst, counts, offsets, MPI_BYTE, MPI_COMM_WORLD);
    } else if (strcmp(operation, "all_gather_v") == 0) {
        MPI_Allgatherv(src, part, MPI_BYTE, dst, counts, offsets, MPI_BYTE, MPI_COMM_WORLD);
    } else if (strcmp(operation, "broadcast") == 0) {
        MPI_Bcast(dst, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    } else {
        fprintf(stderr, "no operation %s\n", operation);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(const char *operation, int bytes, int rounds, int warmup, int iterations) {
    double *mine = calloc(rounds, sizeof *mine), *slowest = calloc(rounds, sizeof *slowest);
    for (int r = 0; r < ranks; r++) {
        counts[r] = bytes / ranks;
        offsets[r] = r * counts[r];
    }
    for (int i = 0; i < warmup; i++) {
        run(operation, bytes);
    }
    for (int round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < iterations; i++) {
            run(operation, bytes);
        }
        mine[round] = (MPI_Wtime() - begin) / iterations;
    }
    MPI_Reduce(mine, slowest, rounds, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    qsort(slowest, rounds, sizeof *slowest, ascending);
    double median = (slowest[(rounds - 1) / 2] + slowest[rounds / 2]) / 2;
    free(mine);
    free(slowest);
    return median;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3 || argc % 3 != 0) {
        fprintf(stderr, "usage: collectives ROUNDS WARMUP (OPERATION BYTES ITERATIONS)...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int rounds = atoi(argv[1]), warmup = atoi(argv[2]);
    size_t most = 0;
    for (int i = 3; i < argc; i += 3) {
        size_t bytes = atoi(argv[i + 1]);
        most = bytes > most ? bytes : most;
    }
    src = allocate(most);
    dst = allocate(most);
    counts = calloc(ranks, sizeof *counts);
    offsets = calloc(ranks, sizeof *offsets);
    for (int i = 3; i < argc; i += 3) {
        double seconds = measure(argv[i], atoi(argv[i + 1]), rounds, warmup, atoi(argv[i + 2]));
        if (rank == 0) {
            printf("%.4f\n", 1e6 * seconds);
        }
    }
    MPI_Finalize();
    return 0;
}
