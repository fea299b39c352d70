//go:build cgo && linux

package cuda

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "edge.h"

#cgo noescape ctx_launch
#cgo nocallback ctx_launch
#cgo noescape ctx_copy
#cgo nocallback ctx_copy
#cgo noescape ctx_clear
#cgo nocallback ctx_clear
#cgo noescape ctx_sync
#cgo nocallback ctx_sync

static int driver_init(driver *d) { return d->cuInit(0); }
static int driver_version(driver *d, int *v) { return d->cuDriverGetVersion(v); }
static int driver_count(driver *d, int *n) { return d->cuDeviceGetCount(n); }
static int driver_device(driver *d, int *dev, int i) { return d->cuDeviceGet(dev, i); }
static int driver_name(driver *d, char *to, int n, int dev) { return d->cuDeviceGetName(to, n, dev); }
static int driver_uuid(driver *d, unsigned char *to, int dev) { return d->cuDeviceGetUuid_v2(to, dev); }
static int driver_attribute(driver *d, int *to, int what, int dev) { return d->cuDeviceGetAttribute(to, what, dev); }
static int driver_memory(driver *d, size_t *to, int dev) { return d->cuDeviceTotalMem_v2(to, dev); }
static int driver_retain(driver *d, handle *ctx, int dev) { return d->cuDevicePrimaryCtxRetain(ctx, dev); }
static int driver_release(driver *d, int dev) { return d->cuDevicePrimaryCtxRelease_v2(dev); }
static const char *driver_error(driver *d, int status, int name) {
	const char *text = NULL;
	int failed = name ? d->cuGetErrorName(status, &text) : d->cuGetErrorString(status, &text);
	return failed || text == NULL ? "unknown" : text;
}
*/
import "C"

import (
	"os"
	"runtime"
	"strings"
	"unsafe"
)

// Built says that this build can open NVIDIA's libraries.
const Built = true

// queuesVariable is how many hardware queues the driver uses; 8, if nobody says otherwise.
const queuesVariable = "CUDA_DEVICE_MAX_CONNECTIONS"

// Driver is an open libcuda. It is safe for concurrent use.
type Driver struct{ d C.driver }

// Open opens the driver; a *Missing if there is none, or no GPU that it drives.
func Open() (*Driver, error) {
	d := new(Driver)
	// Each stream a queue of its own: where two share one, an exchange that waits for a peer
	// holds up what the peer waits for.
	if os.Getenv(queuesVariable) == "" {
		_ = os.Setenv(queuesVariable, "32")
	}
	var reasons []string
	for _, path := range candidates([]string{driverName}, nil) {
		name := C.CString(path)
		var failed *C.char
		lacks := C.driver_open(&d.d, name, &failed)
		C.free(unsafe.Pointer(name))
		switch {
		case failed != nil:
			reasons = append(reasons, C.GoString(failed))
			continue
		case lacks != nil:
			return nil, &Missing{path, "lacks " + C.GoString(lacks) + "; ecrec needs the driver of CUDA 12 or newer"}
		}
		if err := d.status("cuInit", C.driver_init(&d.d)); err != nil {
			return nil, &Missing{path, err.Error()}
		}
		if n, err := d.Count(); err != nil || n == 0 {
			return nil, &Missing{path, "no GPU"}
		}
		return d, nil
	}
	return nil, &Missing{driverName, strings.Join(reasons, "; ")}
}

// status is the error of a call, nil where it succeeded.
func (d *Driver) status(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	return &Failure{call, C.GoString(C.driver_error(&d.d, status, 1)), C.GoString(C.driver_error(&d.d, status, 0))}
}

// Version is the newest CUDA that the driver knows: 12080 for 12.8.
func (d *Driver) Version() int {
	var v C.int
	C.driver_version(&d.d, &v)
	return int(v)
}

// Count is the number of GPUs.
func (d *Driver) Count() (int, error) {
	var n C.int
	err := d.status("cuDeviceGetCount", C.driver_count(&d.d, &n))
	return int(n), err
}

// Attributes of a device, by the numbers that the driver gives them.
const (
	attributeProcessors = 16
	attributeMajor      = 75
	attributeMinor      = 76
	attributeUnified    = 41
	attributeShared     = 97 // shared memory that a block can ask for
)

// Context is the use of one GPU by this process.
type Context struct {
	*Driver
	device C.int
	ctx    C.handle

	// UUID tells the GPU from all others, of any machine.
	UUID [16]byte
	// Name is the GPU's, Arch its architecture, "sm_90"; Memory its bytes in all.
	Name, Arch string
	Memory     int64
	// Processors is how many multiprocessors it has, Shared the bytes of shared memory that
	// a block may have.
	Processors, Shared int
}

// Context begins to use GPU number i.
func (d *Driver) Context(i int) (*Context, error) {
	c := &Context{Driver: d}
	if err := d.status("cuDeviceGet", C.driver_device(&d.d, &c.device, C.int(i))); err != nil {
		return nil, err
	}
	var name [256]C.char
	if err := d.status("cuDeviceGetName", C.driver_name(&d.d, &name[0], C.int(len(name)), c.device)); err != nil {
		return nil, err
	}
	c.Name = C.GoString(&name[0])
	if err := d.status("cuDeviceGetUuid", C.driver_uuid(&d.d, (*C.uchar)(&c.UUID[0]), c.device)); err != nil {
		return nil, err
	}
	var major, minor, processors, shared, unified C.int
	for what, to := range map[C.int]*C.int{attributeMajor: &major, attributeMinor: &minor, attributeProcessors: &processors,
		attributeShared: &shared, attributeUnified: &unified} {
		if err := d.status("cuDeviceGetAttribute", C.driver_attribute(&d.d, to, what, c.device)); err != nil {
			return nil, err
		}
	}
	c.Arch, c.Processors, c.Shared = archOf(int(major), int(minor)), int(processors), int(shared)
	if major < 7 || unified == 0 {
		return nil, &Missing{c.Name, "is " + c.Arch + " (unified addresses: " + yes(unified != 0) + "); ecrec needs a GPU of sm_70 or newer that has them"}
	}
	var memory C.size_t
	if err := d.status("cuDeviceTotalMem", C.driver_memory(&d.d, &memory, c.device)); err != nil {
		return nil, err
	}
	c.Memory = int64(memory)
	return c, d.status("cuDevicePrimaryCtxRetain", C.driver_retain(&d.d, &c.ctx, c.device))
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// Close ends the use of the GPU, whose memory and modules go with it.
func (c *Context) Close() { C.driver_release(&c.d, c.device) }

// Free is how many bytes of the GPU's memory are free.
func (c *Context) Free() (int64, error) {
	var free, total C.size_t
	err := c.status("cuMemGetInfo", C.ctx_mem_info(&c.d, c.ctx, &free, &total))
	return int64(free), err
}

// Alloc takes memory of the GPU: an address, for kernels and copies.
func (c *Context) Alloc(bytes int) (unsafe.Pointer, error) {
	var p C.device_ptr
	if err := c.status("cuMemAlloc", C.ctx_alloc(&c.d, c.ctx, &p, C.size_t(bytes))); err != nil {
		return nil, err
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)), nil
}

// Release gives back what Alloc gave.
func (c *Context) Release(p unsafe.Pointer) error {
	return c.status("cuMemFree", C.ctx_free(&c.d, c.ctx, address(p)))
}

// AllocHost takes memory of the host that the GPU addresses too, at the same address.
func (c *Context) AllocHost(bytes int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := c.status("cuMemHostAlloc", C.ctx_host_alloc(&c.d, c.ctx, &p, C.size_t(bytes)))
	return p, err
}

// ReleaseHost gives back what AllocHost gave.
func (c *Context) ReleaseHost(p unsafe.Pointer) error {
	return c.status("cuMemFreeHost", C.ctx_host_free(&c.d, c.ctx, p))
}

func address(p unsafe.Pointer) C.device_ptr { return C.device_ptr(uintptr(p)) }

// Module is loaded code.
type Module struct {
	c *Context
	m C.handle
}

// Load loads what Compile made.
func (c *Context) Load(image []byte) (*Module, error) {
	m := &Module{c: c}
	text := append(image[:len(image):len(image)], 0) // PTX is text that ends with a zero
	return m, c.status("cuModuleLoadData", C.ctx_module(&c.d, c.ctx, &m.m, unsafe.Pointer(&text[0])))
}

// Close unloads it.
func (m *Module) Close() error {
	return m.c.status("cuModuleUnload", C.ctx_module_close(&m.c.d, m.c.ctx, m.m))
}

// Function is a kernel.
type Function struct{ f C.handle }

// Function finds a kernel, which may be launched with so many bytes of shared memory.
func (m *Module) Function(name string, shared int) (Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var f Function
	err := m.c.status("cuModuleGetFunction of "+name, C.ctx_function(&m.c.d, m.c.ctx, m.m, text, C.int(shared), &f.f))
	return f, err
}

// Stream runs what it is given in order.
type Stream struct {
	c *Context
	s C.handle
}

// Stream makes a stream.
func (c *Context) Stream() (*Stream, error) {
	s := &Stream{c: c}
	return s, c.status("cuStreamCreate", C.ctx_stream(&c.d, c.ctx, &s.s))
}

// Close ends the stream when it has done all.
func (s *Stream) Close() error {
	return s.c.status("cuStreamDestroy", C.ctx_stream_close(&s.c.d, s.c.ctx, s.s))
}

// Sync waits until all is done.
func (s *Stream) Sync() error {
	return s.c.status("cuStreamSynchronize", C.ctx_sync(&s.c.d, s.c.ctx, s.s))
}

// Done reports whether all is done, without waiting.
func (s *Stream) Done() (bool, error) {
	status := C.ctx_query(&s.c.d, s.c.ctx, s.s)
	if status == notReady {
		return false, nil
	}
	return true, s.c.status("cuStreamQuery", status)
}

// notReady is CUDA_ERROR_NOT_READY.
const notReady = 600

// Copy copies bytes between any two of the GPU's memory and the host's. Go memory may be
// used where wait is set: the copy is then over when Copy returns.
func (s *Stream) Copy(to, from unsafe.Pointer, bytes int, wait bool) error {
	w := C.int(0)
	if wait {
		w = 1
	}
	err := s.c.status("cuMemcpyAsync", C.ctx_copy(&s.c.d, s.c.ctx, s.s, address(to), address(from), C.size_t(bytes), w))
	runtime.KeepAlive(to) // as numbers they keep nothing
	runtime.KeepAlive(from)
	return err
}

// Clear sets bytes of the GPU's memory, or of AllocHost's, to zero.
func (s *Stream) Clear(p unsafe.Pointer, bytes int) error {
	return s.c.status("cuMemsetD8Async", C.ctx_clear(&s.c.d, s.c.ctx, s.s, address(p), C.size_t(bytes)))
}

// Launch runs a kernel whose one parameter is the struct at params, in blocks of (x, y)
// threads with so many bytes of shared memory.
func (s *Stream) Launch(f Function, blocks, x, y, shared int, params unsafe.Pointer) error {
	return s.c.status("cuLaunchKernel", C.ctx_launch(&s.c.d, s.c.ctx, s.s, f.f, C.uint(blocks), C.uint(x), C.uint(y), C.uint(shared), params))
}
