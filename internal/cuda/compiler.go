//go:build cgo && linux

package cuda

/*
#include <stdlib.h>
#include "edge.h"

static int nvrtc_version(compiler *c, int *major, int *minor) { return c->nvrtcVersion(major, minor); }
static const char *nvrtc_error(compiler *c, int status) {
	return ((const char *(*)(int))(void *)c->nvrtcGetErrorString)(status);
}
static int nvrtc_create(compiler *c, handle *p, const char *text, const char *name) {
	return c->nvrtcCreateProgram(p, text, name, 0, NULL, NULL);
}
static int nvrtc_destroy(compiler *c, handle p) { return c->nvrtcDestroyProgram(&p); }
static int nvrtc_compile(compiler *c, handle p, int n, const char **options) { return c->nvrtcCompileProgram(p, n, options); }
static int nvrtc_log_size(compiler *c, handle p, size_t *n) { return c->nvrtcGetProgramLogSize(p, n); }
static int nvrtc_log(compiler *c, handle p, char *to) { return c->nvrtcGetProgramLog(p, to); }
static int nvrtc_size(compiler *c, handle p, int ptx, size_t *n) { return ptx ? c->nvrtcGetPTXSize(p, n) : c->nvrtcGetCUBINSize(p, n); }
static int nvrtc_image(compiler *c, handle p, int ptx, char *to) { return ptx ? c->nvrtcGetPTX(p, to) : c->nvrtcGetCUBIN(p, to); }
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// Compiler is an open NVRTC.
type Compiler struct {
	c C.compiler
	// Path is the library's file, Version its CUDA version: 12080 for 12.8.
	Path    string
	Version int
}

// OpenCompiler opens the newest NVRTC whose code a driver of a version accepts (Version of
// Driver, or 0 for any). The error is a *Missing if there is none.
func OpenCompiler(driver int) (*Compiler, error) {
	c := new(Compiler)
	var reasons []string
	for _, path := range candidates(strings.Fields(compilerNames), folders()) {
		// NVRTC loads its built-in functions by name; the system's loader does not search its folder.
		for _, b := range besides(path, "libnvrtc-builtins.so.*") {
			name := C.CString(b)
			C.library_load(name)
			C.free(unsafe.Pointer(name))
		}
		name := C.CString(path)
		var failed *C.char
		lacks := C.compiler_open(&c.c, name, &failed)
		C.free(unsafe.Pointer(name))
		if failed != nil {
			reasons = append(reasons, takeText(failed))
			continue
		}
		if lacks != nil {
			reasons = append(reasons, path+" lacks "+C.GoString(lacks))
			continue
		}
		var major, minor C.int
		C.nvrtc_version(&c.c, &major, &minor)
		c.Path, c.Version = path, 1000*int(major)+10*int(minor)
		if driver > 0 && c.Version/1000 > driver/1000 {
			reasons = append(reasons, fmt.Sprintf("%s is of CUDA %d, the driver of CUDA %d", path, c.Version/1000, driver/1000))
			continue
		}
		return c, nil
	}
	return nil, &Missing{"libnvrtc.so", strings.Join(reasons, "; ")}
}

// Compile compiles CUDA C for an architecture: "sm_90" gives its code, "compute_90" PTX. The
// error is a *Rejected with the compiler's messages if the source is wrong.
func (c *Compiler) Compile(source, name, arch string, options ...string) ([]byte, error) {
	text, title := C.CString(source), C.CString(name)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(title))
	var program C.handle
	if status := C.nvrtc_create(&c.c, &program, text, title); status != 0 {
		return nil, c.statusError("nvrtcCreateProgram", status)
	}
	defer C.nvrtc_destroy(&c.c, program)
	options = append(options[:len(options):len(options)], "--gpu-architecture="+arch)
	list := (*[1 << 10]*C.char)(C.malloc(C.size_t(len(options)) * C.size_t(unsafe.Sizeof(uintptr(0)))))
	defer C.free(unsafe.Pointer(list))
	for i, o := range options {
		list[i] = C.CString(o)
		defer C.free(unsafe.Pointer(list[i]))
	}
	if status := C.nvrtc_compile(&c.c, program, C.int(len(options)), &list[0]); status != 0 {
		return nil, &Rejected{arch, fmt.Sprintf("%v\n%s", c.statusError("nvrtcCompileProgram", status), c.readLog(program))}
	}
	ptx := C.int(0)
	if strings.HasPrefix(arch, "compute_") {
		ptx = 1
	}
	var n C.size_t
	if status := C.nvrtc_size(&c.c, program, ptx, &n); status != 0 {
		return nil, c.statusError("nvrtcGetPTXSize or nvrtcGetCUBINSize", status)
	}
	image := make([]byte, n)
	if n == 0 {
		return nil, &Rejected{arch, "the compiler returned no code"}
	}
	status := C.nvrtc_image(&c.c, program, ptx, (*C.char)(unsafe.Pointer(&image[0])))
	return image, c.statusError("nvrtcGetPTX or nvrtcGetCUBIN", status)
}

func (c *Compiler) statusError(call string, status C.int) error {
	if status == 0 {
		return nil
	}
	return fmt.Errorf("NVRTC: %s: %s", call, C.GoString(C.nvrtc_error(&c.c, status)))
}

func (c *Compiler) readLog(program C.handle) string {
	var n C.size_t
	if C.nvrtc_log_size(&c.c, program, &n) != 0 || n < 2 {
		return ""
	}
	text := make([]byte, n)
	if C.nvrtc_log(&c.c, program, (*C.char)(unsafe.Pointer(&text[0]))) != 0 {
		return ""
	}
	return strings.TrimRight(string(text), "\x00\n")
}
