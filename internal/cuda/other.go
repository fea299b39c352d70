//go:build !cgo || !linux

package cuda

import "unsafe"

// Built reports whether this build can open NVIDIA's libraries.
const Built = false

// The types of this file have no values in this build: the functions that make them fail.

// Driver is an open libcuda; there is none in this build.
type Driver struct{}

var errBuild = &Missing{driverName, "this ecrec was built without cgo; build with CGO_ENABLED=1 on Linux"}

// Open returns the error that this build cannot open the driver.
func Open() (*Driver, error) { return nil, errBuild }

// Version returns 0.
func (d *Driver) Version() int { return 0 }

// Count returns 0.
func (d *Driver) Count() (int, error) { return 0, errBuild }

// Context is the use of a GPU; there is none in this build.
type Context struct {
	*Driver
	UUID               [16]byte
	Name, Arch         string
	Memory             int64
	Processors, Shared int
}

// Context returns the error that this build cannot use a GPU.
func (d *Driver) Context(int) (*Context, error) { return nil, errBuild }

// Close panics, like all methods of types whose values cannot exist here.
func (c *Context) Close() { panic(errBuild) }

func (c *Context) Free() (int64, error)                  { panic(errBuild) }
func (c *Context) Alloc(int) (unsafe.Pointer, error)     { panic(errBuild) }
func (c *Context) Release(unsafe.Pointer) error          { panic(errBuild) }
func (c *Context) AllocHost(int) (unsafe.Pointer, error) { panic(errBuild) }
func (c *Context) ReleaseHost(unsafe.Pointer) error      { panic(errBuild) }
func (c *Context) Load([]byte) (*Module, error)          { panic(errBuild) }
func (c *Context) Stream() (*Stream, error)              { panic(errBuild) }

// Module is loaded code.
type Module struct{}

func (m *Module) Close() error                           { panic(errBuild) }
func (m *Module) Function(string, int) (Function, error) { panic(errBuild) }

// Function is a kernel.
type Function struct{}

// Stream runs operations of the GPU in order.
type Stream struct{}

func (s *Stream) Close() error                                              { panic(errBuild) }
func (s *Stream) Sync() error                                               { panic(errBuild) }
func (s *Stream) Copy(to, from unsafe.Pointer, bytes int, wait bool) error  { panic(errBuild) }
func (s *Stream) Clear(unsafe.Pointer, int) error                           { panic(errBuild) }
func (s *Stream) Launch(Function, int, int, int, int, unsafe.Pointer) error { panic(errBuild) }

// Compiler is an open NVRTC; there is none in this build.
type Compiler struct {
	Path    string
	Version int
}

// OpenCompiler returns the error that this build cannot open NVRTC.
func OpenCompiler(int) (*Compiler, error) { return nil, errBuild }

// Compile panics.
func (c *Compiler) Compile(source, name, arch string, options ...string) ([]byte, error) {
	panic(errBuild)
}

// NCCL is an open NCCL; there is none in this build.
type NCCL struct{ Version int }

// OpenNCCL returns the error that this build cannot open NCCL.
func OpenNCCL() (*NCCL, error) { return nil, errBuild }

// ID identifies a communicator.
type ID [128]byte

// NewID panics, like all methods of an NCCL.
func (n *NCCL) NewID() (ID, error) { panic(errBuild) }

// Comm is a rank's communicator.
type Comm struct{}

// Part is the address and length of a rank's part of a buffer.
type Part struct {
	At    unsafe.Pointer
	Bytes int
}

func (c *Context) Comm(*NCCL, ID, int, int) (*Comm, error) { panic(errBuild) }
func (m *Comm) State() (bool, error)                       { panic(errBuild) }
func (m *Comm) Exchange(*Stream, []Part, []Part) error     { panic(errBuild) }
func (m *Comm) Sum(*Stream, unsafe.Pointer, int) error     { panic(errBuild) }
func (m *Comm) Abort() error                               { panic(errBuild) }
func (m *Comm) Close() error                               { panic(errBuild) }
func (s *Stream) Done() (bool, error)                      { panic(errBuild) }

// CUBLAS is an open cuBLAS; there is none in this build.
type CUBLAS struct{}

// OpenCUBLAS returns the error that this build cannot open cuBLAS.
func OpenCUBLAS() (*CUBLAS, error) { return nil, errBuild }

// Compute is the arithmetic of cuBLAS's products.
type Compute int

const (
	Float32  Compute = 69
	TF32     Compute = 77
	BFloat16 Compute = 75
)

// Products multiplies matrices.
type Products struct{}

// Operand is a matrix.
type Operand struct {
	At         uintptr
	Stride     int
	Transposed bool
}

func (c *Context) Products(*CUBLAS, *Stream, Compute) (*Products, error) { panic(errBuild) }
func (p *Products) Close() error                                         { panic(errBuild) }
func (p *Products) Multiply(m, n, k int, to, x, y Operand) error         { panic(errBuild) }
