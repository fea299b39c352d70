//go:build cgo && linux

package cuda

/*
#include <stdlib.h>
#include "edge.h"

static int nccl_version(nccl *n, int *v) { return n->ncclGetVersion(v); }
static int nccl_unique(nccl *n, char *to) { return n->ncclGetUniqueId((unique_id *)to); }
static const char *nccl_error(nccl *n, int status) {
	return ((const char *(*)(int))(void *)n->ncclGetErrorString)(status);
}
*/
import "C"

import (
	"strings"
	"unsafe"
)

// NCCL is an open NCCL. It is safe for concurrent use.
type NCCL struct {
	n C.nccl
	// Version is 22703 for 2.27.3.
	Version int
}

// leastNCCL is the first version whose non-blocking communicators keep no state in the calling
// thread. Until 2.26 a group's jobs were thread-local, and goroutines change threads.
const leastNCCL = 22703

// OpenNCCL opens NCCL. The error is a *Missing if there is none.
func OpenNCCL() (*NCCL, error) {
	n := new(NCCL)
	var reasons []string
	for _, path := range candidates([]string{ncclName}, folders()) {
		name := C.CString(path)
		var failed *C.char
		lacks := C.nccl_open(&n.n, name, &failed)
		C.free(unsafe.Pointer(name))
		if failed != nil {
			reasons = append(reasons, takeText(failed))
			continue
		}
		if lacks != nil {
			reasons = append(reasons, path+" lacks "+C.GoString(lacks))
			continue
		}
		var v C.int
		C.nccl_version(&n.n, &v)
		if n.Version = int(v); n.Version < leastNCCL {
			reasons = append(reasons, path+" is older than NCCL 2.27.3, which is the first that ecrec can use")
			continue
		}
		return n, nil
	}
	return nil, &Missing{ncclName, strings.Join(reasons, "; ")}
}

// ID identifies a communicator before it is made.
type ID [128]byte

// NewID makes an ID, which one rank sends to the others.
func (n *NCCL) NewID() (id ID, err error) {
	status := C.nccl_unique(&n.n, (*C.char)(unsafe.Pointer(&id[0])))
	return id, n.statusError("ncclGetUniqueId", status)
}

// statusError returns the error of a call, nil if it succeeded or is in progress.
func (n *NCCL) statusError(call string, status C.int) error {
	if status == 0 || status == inProgress {
		return nil
	}
	if status < 0 {
		return &Failure{call, "CUDA", "the context of the GPU cannot be used"}
	}
	return &Failure{call, "NCCL", C.GoString(C.nccl_error(&n.n, status))}
}

// inProgress is ncclInProgress.
const inProgress = 7

// Comm is a rank's communicator. It does not block: after each call, and after it is made,
// State returns false while the operation is in progress. One goroutine at a time uses it,
// except for Abort.
type Comm struct {
	lib         *NCCL
	c           *Context
	comm        C.handle
	rank, ranks int
	to, from    []C.part
}

// Part is the address and length of a rank's part of a buffer on the GPU.
type Part struct {
	At    unsafe.Pointer
	Bytes int
}

// Comm starts to make the communicator of a rank. All ranks call it, each on its own GPU.
func (c *Context) Comm(lib *NCCL, id ID, rank, ranks int) (*Comm, error) {
	m := &Comm{lib: lib, c: c, rank: rank, ranks: ranks, to: make([]C.part, ranks), from: make([]C.part, ranks)}
	status := C.ctx_nccl_init(&c.d, c.ctx, &lib.n, &m.comm, C.int(ranks), (*C.char)(unsafe.Pointer(&id[0])), C.int(rank))
	return m, lib.statusError("ncclCommInitRankConfig", status)
}

// State reports whether the last call is done, that is, started on the GPU.
func (m *Comm) State() (done bool, err error) {
	status := C.ctx_nccl_state(&m.c.d, m.c.ctx, &m.lib.n, m.comm)
	return status != inProgress, m.lib.statusError("NCCL", status)
}

// Exchange sends part r of to to each other rank r, and receives part r of from from it.
func (m *Comm) Exchange(s *Stream, to, from []Part) error {
	for r := range m.ranks {
		m.to[r] = C.part{C.uint64_t(uintptr(to[r].At)), C.uint64_t(to[r].Bytes)}
		m.from[r] = C.part{C.uint64_t(uintptr(from[r].At)), C.uint64_t(from[r].Bytes)}
	}
	status := C.ctx_nccl_exchange(&m.c.d, m.c.ctx, &m.lib.n, m.comm, s.s, C.int(m.ranks), C.int(m.rank), &m.to[0], &m.from[0])
	return m.lib.statusError("ncclSend and ncclRecv", status)
}

// Sum replaces floats by their sums over all ranks, in an order of NCCL's own.
func (m *Comm) Sum(s *Stream, at unsafe.Pointer, floats int) error {
	status := C.ctx_nccl_sum(&m.c.d, m.c.ctx, &m.lib.n, m.comm, s.s, C.uint64_t(uintptr(at)), C.uint64_t(floats))
	return m.lib.statusError("ncclAllReduce", status)
}

// Abort ends the communicator and its operations on the GPU, without waiting for other ranks.
func (m *Comm) Abort() error {
	return m.lib.statusError("ncclCommAbort", C.ctx_nccl_abort(&m.c.d, m.c.ctx, &m.lib.n, m.comm))
}

// Close ends the communicator. No operation of it may be in progress.
func (m *Comm) Close() error {
	return m.lib.statusError("ncclCommDestroy", C.ctx_nccl_close(&m.c.d, m.c.ctx, &m.lib.n, m.comm))
}
