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

// Built reports whether this build can open NVIDIA's libraries.
const Built = true

// queuesVariable sets the number of hardware queues that the driver uses; the default is 8.
const queuesVariable = "CUDA_DEVICE_MAX_CONNECTIONS"

// It is set before main: while a thread sets a variable, no other may open a library, whose constructor may read variables.
func init() {
	// Each stream needs a queue of its own. If two streams shared one, an exchange that waits
	// for a peer could delay the work that the peer waits for.
	if os.Getenv(queuesVariable) == "" {
		_ = os.Setenv(queuesVariable, "32")
	}
}

// Driver is an open libcuda. It is safe for concurrent use.
type Driver struct{ d C.driver }

// Open opens the driver. The error is a *Missing if there is no driver or no GPU.
func Open() (*Driver, error) {
	d := new(Driver)
	var reasons []string
	for _, path := range candidates([]string{driverName}, nil) {
		name := C.CString(path)
		var failed *C.char
		lacks := C.driver_open(&d.d, name, &failed)
		C.free(unsafe.Pointer(name))
		switch {
		case failed != nil:
			reasons = append(reasons, takeText(failed))
			continue
		case lacks != nil:
			return nil, &Missing{path, "lacks " + C.GoString(lacks) + "; ecrec needs the driver of CUDA 12 or newer"}
		}
		if err := d.statusError("cuInit", C.driver_init(&d.d)); err != nil {
			return nil, &Missing{path, err.Error()}
		}
		if n, err := d.Count(); err != nil || n == 0 {
			return nil, &Missing{path, "no GPU"}
		}
		return d, nil
	}
	return nil, &Missing{driverName, strings.Join(reasons, "; ")}
}

// statusError returns the error of a call, nil if it succeeded.
func (d *Driver) statusError(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	return &Failure{call, C.GoString(C.driver_error(&d.d, status, 1)), C.GoString(C.driver_error(&d.d, status, 0))}
}

// Version returns the newest CUDA version that the driver supports: 12080 for 12.8.
func (d *Driver) Version() int {
	var v C.int
	C.driver_version(&d.d, &v)
	return int(v)
}

// Count returns the number of GPUs.
func (d *Driver) Count() (int, error) {
	var n C.int
	err := d.statusError("cuDeviceGetCount", C.driver_count(&d.d, &n))
	return int(n), err
}

// Attributes of a device: values of CUdevice_attribute.
const (
	attributeProcessors = 16
	attributeMajor      = 75
	attributeMinor      = 76
	attributeUnified    = 41
	attributeShared     = 97 // the most shared memory of a block
)

// Context is the use of one GPU by this process.
type Context struct {
	*Driver
	device C.int
	ctx    C.handle

	// UUID identifies the GPU among all GPUs of all machines.
	UUID [16]byte
	// Name is the GPU's name, Arch its architecture ("sm_90"), Memory its total bytes.
	Name, Arch string
	Memory     int64
	// Processors is the number of its multiprocessors, Shared the most bytes of shared memory
	// of a block.
	Processors, Shared int
}

// Context opens GPU number i.
func (d *Driver) Context(i int) (*Context, error) {
	c := &Context{Driver: d}
	if err := d.statusError("cuDeviceGet", C.driver_device(&d.d, &c.device, C.int(i))); err != nil {
		return nil, err
	}
	var name [256]C.char
	if err := d.statusError("cuDeviceGetName", C.driver_name(&d.d, &name[0], C.int(len(name)), c.device)); err != nil {
		return nil, err
	}
	c.Name = C.GoString(&name[0])
	if err := d.statusError("cuDeviceGetUuid", C.driver_uuid(&d.d, (*C.uchar)(&c.UUID[0]), c.device)); err != nil {
		return nil, err
	}
	var major, minor, processors, shared, unified C.int
	for what, to := range map[C.int]*C.int{attributeMajor: &major, attributeMinor: &minor, attributeProcessors: &processors,
		attributeShared: &shared, attributeUnified: &unified} {
		if err := d.statusError("cuDeviceGetAttribute", C.driver_attribute(&d.d, to, what, c.device)); err != nil {
			return nil, err
		}
	}
	c.Arch, c.Processors, c.Shared = archOf(int(major), int(minor)), int(processors), int(shared)
	if major < 7 || unified == 0 {
		return nil, &Missing{c.Name, "is " + c.Arch + " (unified addresses: " + yes(unified != 0) +
			"); ecrec needs a GPU of sm_70 or newer that has them"}
	}
	var memory C.size_t
	if err := d.statusError("cuDeviceTotalMem", C.driver_memory(&d.d, &memory, c.device)); err != nil {
		return nil, err
	}
	c.Memory = int64(memory)
	return c, d.statusError("cuDevicePrimaryCtxRetain", C.driver_retain(&d.d, &c.ctx, c.device))
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// Close ends the use of the GPU and frees its memory and modules.
func (c *Context) Close() { C.driver_release(&c.d, c.device) }

// Free returns the free bytes of the GPU's memory.
func (c *Context) Free() (int64, error) {
	var free, total C.size_t
	err := c.statusError("cuMemGetInfo", C.ctx_mem_info(&c.d, c.ctx, &free, &total))
	return int64(free), err
}

// Alloc allocates memory of the GPU and returns its address, for kernels and copies.
func (c *Context) Alloc(bytes int) (unsafe.Pointer, error) {
	var p C.device_ptr
	if err := c.statusError("cuMemAlloc", C.ctx_alloc(&c.d, c.ctx, &p, C.size_t(bytes))); err != nil {
		return nil, err
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)), nil
}

// Release frees memory of Alloc.
func (c *Context) Release(p unsafe.Pointer) error {
	return c.statusError("cuMemFree", C.ctx_free(&c.d, c.ctx, address(p)))
}

// AllocHost allocates pinned memory of the host, which the GPU addresses at the same address.
func (c *Context) AllocHost(bytes int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := c.statusError("cuMemHostAlloc", C.ctx_host_alloc(&c.d, c.ctx, &p, C.size_t(bytes)))
	return p, err
}

// ReleaseHost frees memory of AllocHost.
func (c *Context) ReleaseHost(p unsafe.Pointer) error {
	return c.statusError("cuMemFreeHost", C.ctx_host_free(&c.d, c.ctx, p))
}

func address(p unsafe.Pointer) C.device_ptr { return C.device_ptr(uintptr(p)) }

// Module is loaded code.
type Module struct {
	c *Context
	m C.handle
}

// Load loads an image that Compile returned.
func (c *Context) Load(image []byte) (*Module, error) {
	m := &Module{c: c}
	text := append(image[:len(image):len(image)], 0) // PTX is text that ends with a zero
	return m, c.statusError("cuModuleLoadData", C.ctx_module(&c.d, c.ctx, &m.m, unsafe.Pointer(&text[0])))
}

// Close unloads the module.
func (m *Module) Close() error {
	return m.c.statusError("cuModuleUnload", C.ctx_module_close(&m.c.d, m.c.ctx, m.m))
}

// Function is a kernel.
type Function struct{ f C.handle }

// Function finds a kernel. It may be launched with up to shared bytes of shared memory.
func (m *Module) Function(name string, shared int) (Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var f Function
	err := m.c.statusError("cuModuleGetFunction of "+name, C.ctx_function(&m.c.d, m.c.ctx, m.m, text, C.int(shared), &f.f))
	return f, err
}

// Stream runs operations of the GPU in order.
type Stream struct {
	c *Context
	s C.handle
}

// Stream makes a stream.
func (c *Context) Stream() (*Stream, error) {
	s := &Stream{c: c}
	return s, c.statusError("cuStreamCreate", C.ctx_stream(&c.d, c.ctx, &s.s))
}

// Close waits for all operations and ends the stream.
func (s *Stream) Close() error {
	return s.c.statusError("cuStreamDestroy", C.ctx_stream_close(&s.c.d, s.c.ctx, s.s))
}

// Sync waits until all operations are done.
func (s *Stream) Sync() error {
	return s.c.statusError("cuStreamSynchronize", C.ctx_sync(&s.c.d, s.c.ctx, s.s))
}

// Done reports whether all operations are done, without waiting.
func (s *Stream) Done() (bool, error) {
	status := C.ctx_query(&s.c.d, s.c.ctx, s.s)
	if status == notReady {
		return false, nil
	}
	return true, s.c.statusError("cuStreamQuery", status)
}

// notReady is CUDA_ERROR_NOT_READY.
const notReady = 600

// Copy copies bytes between memory of the GPU and the host, in any direction. With wait set,
// the copy is done when Copy returns, so that either side may be Go memory.
func (s *Stream) Copy(to, from unsafe.Pointer, bytes int, wait bool) error {
	w := C.int(0)
	if wait {
		w = 1
	}
	err := s.c.statusError("cuMemcpyAsync", C.ctx_copy(&s.c.d, s.c.ctx, s.s, address(to), address(from), C.size_t(bytes), w))
	runtime.KeepAlive(to) // addresses as numbers do not keep memory alive
	runtime.KeepAlive(from)
	return err
}

// Clear sets bytes of the GPU's memory, or of AllocHost's, to zero.
func (s *Stream) Clear(p unsafe.Pointer, bytes int) error {
	return s.c.statusError("cuMemsetD8Async", C.ctx_clear(&s.c.d, s.c.ctx, s.s, address(p), C.size_t(bytes)))
}

// Launch runs a kernel whose one parameter is the struct at params, in blocks of (x, y)
// threads with shared bytes of shared memory.
func (s *Stream) Launch(f Function, blocks, x, y, shared int, params unsafe.Pointer) error {
	return s.c.statusError("cuLaunchKernel", C.ctx_launch(&s.c.d, s.c.ctx, s.s, f.f, C.uint(blocks), C.uint(x), C.uint(y),
		C.uint(shared), params))
}

// takeText returns a text of C, which it frees.
func takeText(text *C.char) string {
	defer C.free(unsafe.Pointer(text))
	return C.GoString(text)
}
