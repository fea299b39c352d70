//go:build mpi && cgo

package mpi

/*
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

// A send or receive that has ended.
typedef struct {
	int slot, from, bytes, cancelled, err;
} ended;

static MPI_Comm comm;
static int      slots; // the length of the following arrays
static MPI_Request *requests;
static MPI_Status  *statuses;
static int         *indices;
static ended       *over;

// The runtime's signal handlers. MPI_Init may replace them by handlers that run on small stacks.
static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGTRAP, SIGSYS, SIGINT, SIGTERM, SIGHUP, SIGPIPE,
	SIGURG, SIGPROF, SIGCHLD};
enum { keptSignals = sizeof kept / sizeof *kept };

static int initialise(int *rank, int *size, int *level) {
	struct sigaction before[keptSignals];
	for (int i = 0; i < keptSignals; i++) {
		sigaction(kept[i], NULL, &before[i]);
	}
	int err = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level);
	for (int i = 0; i < keptSignals; i++) {
		sigaction(kept[i], &before[i], NULL);
	}
	if (err != MPI_SUCCESS) {
		return err;
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if ((err = MPI_Comm_dup(MPI_COMM_WORLD, &comm)) != MPI_SUCCESS) {
		return err;
	}
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(comm, rank);
	MPI_Comm_size(comm, size);
	return MPI_SUCCESS;
}

static int grow(int slot) {
	if (slot < slots) {
		return 1;
	}
	int n = slots ? slots : 64;
	while (n <= slot) {
		n *= 2;
	}
	MPI_Request *r = realloc(requests, n * sizeof *r);
	if (r) {
		requests = r;
	}
	MPI_Status *s = realloc(statuses, n * sizeof *s);
	if (s) {
		statuses = s;
	}
	int *x = realloc(indices, n * sizeof *x);
	if (x) {
		indices = x;
	}
	ended *o = realloc(over, n * sizeof *o);
	if (o) {
		over = o;
	}
	if (!r || !s || !x || !o) {
		return 0;
	}
	for (int i = slots; i < n; i++) {
		requests[i] = MPI_REQUEST_NULL;
	}
	slots = n;
	return 1;
}

static int startOperation(int sends, int slot, uintptr_t p, int bytes, int peer, int tag) {
	if (!grow(slot)) {
		return MPI_ERR_NO_MEM;
	}
	if (sends) {
		return MPI_Isend((void *)p, bytes, MPI_BYTE, peer, tag, comm, &requests[slot]);
	}
	return MPI_Irecv((void *)p, bytes, MPI_BYTE, peer < 0 ? MPI_ANY_SOURCE : peer, tag, comm, &requests[slot]);
}

static int cancel(int slot) { return requests[slot] == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Cancel(&requests[slot]); }

// poll fills over with the operations of the first n slots that have ended.
static int poll(int n, int *count) {
	*count = 0;
	n = n < slots ? n : slots;
	int err = MPI_Testsome(n, requests, count, indices, statuses);
	if (*count == MPI_UNDEFINED) {
		*count = 0;
	}
	if (err != MPI_SUCCESS && err != MPI_ERR_IN_STATUS) {
		return err;
	}
	for (int i = 0; i < *count; i++) {
		ended *e = &over[i];
		*e = (ended){indices[i], statuses[i].MPI_SOURCE, 0, 0, err == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : MPI_SUCCESS};
		MPI_Test_cancelled(&statuses[i], &e->cancelled);
		if (!e->cancelled && e->err == MPI_SUCCESS) {
			MPI_Get_count(&statuses[i], MPI_BYTE, &e->bytes);
		}
	}
	return MPI_SUCCESS;
}

static const ended *overs(void) { return over; }
static void finalize(void) { MPI_Finalize(); }
static void abortAll(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"
)

// Built reports whether this binary can use MPI.
const Built = true

// main runs f on the thread that initialised MPI, which must also finalize it.
var main chan func()

// the is the library that Init returned. The reference keeps memory alive that MPI may use.
var the *library

type library struct {
	rank, size int
	held       [][]byte // by slot: memory that MPI may use
}

// Init initialises MPI and returns this process's end of a copy of MPI_COMM_WORLD. It
// is called once.
func Init() (Comm, error) {
	main = make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range main {
			f()
		}
	}()
	var rank, size, level, code C.int
	on(func() { code = C.initialise(&rank, &size, &level) })
	if code != C.MPI_SUCCESS {
		return nil, fmt.Errorf("MPI_Init_thread: %w", mpiError(code))
	}
	if level < C.MPI_THREAD_SERIALIZED {
		return nil, fmt.Errorf("%s allows calls from one thread only; ecrec needs MPI_THREAD_SERIALIZED", Library())
	}
	the = &library{rank: int(rank), size: int(size)}
	return the, nil
}

func on(f func()) {
	done := make(chan struct{})
	main <- func() {
		f()
		close(done)
	}
	<-done
}

// Library returns the MPI library's name and version.
func Library() string {
	text := make([]byte, C.MPI_MAX_LIBRARY_VERSION_STRING)
	var n C.int
	if C.MPI_Get_library_version((*C.char)(unsafe.Pointer(&text[0])), &n) != C.MPI_SUCCESS {
		return "MPI"
	}
	first, _, _ := strings.Cut(string(text[:n]), "\n")
	name, _, _ := strings.Cut(first, ",")
	return strings.Join(strings.Fields(strings.TrimRight(name, "\x00")), " ")
}

// Finalize ends MPI. No message may be in progress.
func Finalize() { on(func() { C.finalize() }) }

// Abort ends all processes of MPI_COMM_WORLD. This process exits with code, if the library
// permits.
func Abort(code int) { C.abortAll(C.int(code)) }

func (l *library) Rank() int { return l.rank }
func (l *library) Size() int { return l.size }

func (l *library) Send(slot int, p []byte, to, tag int) error {
	return l.startOperation("MPI_Isend", 1, slot, p, to, tag)
}

func (l *library) Recv(slot int, p []byte, from, tag int) error {
	return l.startOperation("MPI_Irecv", 0, slot, p, from, tag)
}

// startOperation starts a send or a receive of p. p is outside Go's heap, or on it, where memory does
// not move.
func (l *library) startOperation(what string, sends C.int, slot int, p []byte, peer, tag int) error {
	for slot >= len(l.held) {
		l.held = append(l.held, nil)
	}
	if l.held[slot] != nil {
		return fmt.Errorf("%s: slot %d is in use", what, slot)
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	if code := C.startOperation(sends, C.int(slot), C.uintptr_t(address), C.int(len(p)), C.int(peer), C.int(tag)); code != C.MPI_SUCCESS {
		return fmt.Errorf("%s: %w", what, mpiError(code))
	}
	l.held[slot] = p
	return nil
}

func (l *library) Cancel(slot int) error {
	if code := C.cancel(C.int(slot)); code != C.MPI_SUCCESS {
		return fmt.Errorf("MPI_Cancel: %w", mpiError(code))
	}
	return nil
}

func (l *library) Poll(done []Done) ([]Done, error) {
	var n C.int
	if code := C.poll(C.int(len(l.held)), &n); code != C.MPI_SUCCESS {
		return done, fmt.Errorf("MPI_Testsome: %w", mpiError(code))
	}
	if n == 0 {
		return done, nil
	}
	for _, e := range unsafe.Slice(C.overs(), n) {
		l.held[e.slot] = nil
		d := Done{Slot: int(e.slot), From: int(e.from), Bytes: int(e.bytes), Cancelled: e.cancelled != 0}
		if e.err != C.MPI_SUCCESS {
			d.Err = mpiError(e.err)
		}
		done = append(done, d)
	}
	return done, nil
}

func mpiError(code C.int) error {
	text := make([]byte, C.MPI_MAX_ERROR_STRING)
	var n C.int
	if C.MPI_Error_string(code, (*C.char)(unsafe.Pointer(&text[0])), &n) != C.MPI_SUCCESS {
		return fmt.Errorf("error %d", code)
	}
	return fmt.Errorf("%s", strings.TrimRight(string(text[:n]), "\x00"))
}
