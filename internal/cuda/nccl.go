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

// leastNCCL is the first whose communicators, where they do not block, keep nothing in the
// thread that called them: until 2.26 a group's jobs did, and goroutines change threads.
const leastNCCL = 22703

// OpenNCCL opens NCCL; a *Missing if there is none.
func OpenNCCL() (*NCCL, error) {
	n := new(NCCL)
	var reasons []string
	for _, path := range candidates([]string{ncclName}, folders()) {
		name := C.CString(path)
		var failed *C.char
		lacks := C.nccl_open(&n.n, name, &failed)
		C.free(unsafe.Pointer(name))
		if failed != nil {
			reasons = append(reasons, C.GoString(failed))
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

// ID names a communicator that is yet to be made.
type ID [128]byte

// NewID makes a name, for one rank to tell the others.
func (n *NCCL) NewID() (id ID, err error) {
	status := C.nccl_unique(&n.n, (*C.char)(unsafe.Pointer(&id[0])))
	return id, n.failed("ncclGetUniqueId", status)
}

// failed is the error of a call, nil where it succeeded or goes on.
func (n *NCCL) failed(call string, status C.int) error {
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

// Comm is a rank's communicator. It does not block: after each call, and when it is made,
// State says false while that goes on. One goroutine at a time uses it, but for Abort.
type Comm struct {
	lib         *NCCL
	c           *Context
	comm        C.handle
	rank, ranks int
	to, from    []C.part
}

// Part is where a rank's part of a buffer lies on the GPU.
type Part struct {
	At    unsafe.Pointer
	Bytes int
}

// Comm begins to make the communicator of a rank; all of the ranks do, each on a GPU of its own.
func (c *Context) Comm(lib *NCCL, id ID, rank, ranks int) (*Comm, error) {
	m := &Comm{lib: lib, c: c, rank: rank, ranks: ranks, to: make([]C.part, ranks), from: make([]C.part, ranks)}
	status := C.ctx_nccl_init(&c.d, c.ctx, &lib.n, &m.comm, C.int(ranks), (*C.char)(unsafe.Pointer(&id[0])), C.int(rank))
	return m, lib.failed("ncclCommInitRankConfig", status)
}

// State reports whether what was called last is done: begun on the GPU, that is.
func (m *Comm) State() (done bool, err error) {
	status := C.ctx_nccl_state(&m.c.d, m.c.ctx, &m.lib.n, m.comm)
	return status != inProgress, m.lib.failed("NCCL", status)
}

// Exchange sends part r of to to each other rank r and receives part r of from.
func (m *Comm) Exchange(s *Stream, to, from []Part) error {
	for r := range m.ranks {
		m.to[r] = C.part{C.uint64_t(uintptr(to[r].At)), C.uint64_t(to[r].Bytes)}
		m.from[r] = C.part{C.uint64_t(uintptr(from[r].At)), C.uint64_t(from[r].Bytes)}
	}
	status := C.ctx_nccl_exchange(&m.c.d, m.c.ctx, &m.lib.n, m.comm, s.s, C.int(m.ranks), C.int(m.rank), &m.to[0], &m.from[0])
	return m.lib.failed("ncclSend and ncclRecv", status)
}

// Sum replaces floats by their sums over all ranks, in an order of NCCL's own.
func (m *Comm) Sum(s *Stream, at unsafe.Pointer, floats int) error {
	status := C.ctx_nccl_sum(&m.c.d, m.c.ctx, &m.lib.n, m.comm, s.s, C.uint64_t(uintptr(at)), C.uint64_t(floats))
	return m.lib.failed("ncclAllReduce", status)
}

// Abort ends the communicator and what it does on the GPU, whatever other ranks do.
func (m *Comm) Abort() error {
	return m.lib.failed("ncclCommAbort", C.ctx_nccl_abort(&m.c.d, m.c.ctx, &m.lib.n, m.comm))
}

// Close ends the communicator, of which nothing is under way.
func (m *Comm) Close() error {
	return m.lib.failed("ncclCommDestroy", C.ctx_nccl_close(&m.c.d, m.c.ctx, &m.lib.n, m.comm))
}
