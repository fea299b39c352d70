package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// cgoFiles are the edges where Go meets C.
var cgoFiles = map[string]string{
	"internal/openblas/openblas_cgo.go": "opens OpenBLAS at run time",
	"internal/cuda/driver.go":           "calls the driver of a GPU, opened at run time",
	"internal/cuda/compiler.go":         "calls NVRTC, opened at run time",
	"internal/cuda/nccl.go":             "calls NCCL, opened at run time",
	"internal/cuda/cublas.go":           "calls cuBLAS, opened at run time",
	"internal/mpi/mpi.go":               "calls MPI, in builds that have it",
	"internal/mpi/openmpi.go":           "flags for Open MPI",
	"internal/mpi/mpich.go":             "flags for MPICH",
}

func TestCgoOnlyAtTheEdges(t *testing.T) {
	for _, s := range sources(t) {
		if s.imported("C") != "" && !s.in(cgoFiles) {
			t.Errorf("%s: import \"C\" stands only in the edges %v, so that CGO_ENABLED=0 builds; put the call behind one of them", s.path, keys(cgoFiles))
		}
	}
}

// inexact are the functions of math whose bits depend on the CPU's features or
// that are not correctly rounded.
var inexact = set("Exp Exp2 Expm1 Log Log1p Log2 Log10 Pow Tanh Sinh Cosh Sin Cos Tan Atan Atan2 Cbrt Gamma Erf Hypot")

// inexactAllowed may use them, for numbers that only people see.
var inexactAllowed = map[string]string{}

func TestMathIsExact(t *testing.T) {
	for _, s := range sources(t) {
		if !s.production() || s.in(inexactAllowed) {
			continue
		}
		for _, e := range s.uses("math", inexact) {
			t.Errorf("%s: math.%s gives other bits on other CPUs (DESIGN.md section 8); use the exact functions of internal/f32", s.at(e), e.Sel.Name)
		}
	}
}

// mayBlock may use the clock, goroutines and locks directly: no rank runs there,
// or it is the place that hides them.
var mayBlock = map[string]string{
	"internal/env":                      "maps Env to the Go runtime",
	"internal/cli":                      "above the ranks: signals",
	"launcher":                          "beside the ranks: processes, sockets, signals; what it decides is in state machines without them",
	"internal/report":                   "above the ranks: the terminal's clock",
	"internal/nvml/nvml.go":             "beside the ranks: looks at a GPU now and then",
	"internal/doctor":                   "above the ranks: time limits of foreign programs",
	"bench":                             "measures with the clock",
	"kernels/pool.go":                   "compute threads, below the ranks",
	"internal/arena/arena.go":           "guards the lists of allocations; holds it for no wait; prepares memory beside all ranks",
	"kernels/cpu.go":                    "guards the table of allocations; holds it for no wait",
	"kernels/cuda_device.go":            "guards the table of allocations, and the stream that clears them",
	"internal/mpi/mpi.go":               "keeps the thread that must finalize MPI",
	"internal/openblas/openblas_cgo.go": "OpenBLAS has one thread count for all callers",
}

var (
	clock = set("Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker")
	locks = set("Mutex RWMutex WaitGroup Cond")
)

func TestRanksBlockThroughEnv(t *testing.T) {
	const instead = "a rank blocks only through env.Env, so that a simulator can drive it; use Env.Now, Env.Sleep, Env.Go, Env.Monitor, env.Queue or env.Event"
	for _, s := range sources(t) {
		if !s.production() || s.in(mayBlock) {
			continue
		}
		for _, e := range append(s.uses("time", clock), s.uses("sync", locks)...) {
			t.Errorf("%s: %s.%s: %s", s.at(e), e.X.(*ast.Ident).Name, e.Sel.Name, instead)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectStmt:
				t.Errorf("%s: select: %s", s.at(n), instead)
			case *ast.GoStmt:
				t.Errorf("%s: go: %s", s.at(n), instead)
			case *ast.ChanType:
				t.Errorf("%s: chan: %s", s.at(n), instead)
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					t.Errorf("%s: receive: %s", s.at(n), instead)
				}
			}
			return true
		})
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	has, packages := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.file.Name.Name == "main" || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		packages[s.pkg] = true
		if strings.HasSuffix(s.path, "/doc.go") && s.file.Doc != nil {
			has[s.pkg] = strings.HasPrefix(s.file.Doc.Text(), "Package "+s.file.Name.Name+" ")
		}
	}
	for pkg := range packages {
		if !has[pkg] {
			t.Errorf("%s has no doc.go that begins with // Package: say what it owns, its terms, its invariants and what it never does", pkg)
		}
	}
}

const (
	maxFileLines = 400
	maxFuncLines = 70
)

// longFiles and longFuncs may be longer.
var (
	longFiles = map[string]string{}
	longFuncs = map[string]string{}
)

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxFileLines && !s.in(longFiles) {
			t.Errorf("%s has %d lines, over %d: split it by concept, or give the reason in internal/lint", s.path, s.lines, maxFileLines)
		}
		if !s.production() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			if _, allowed := longFuncs[s.pkg+" "+f.Name.Name]; n > maxFuncLines && !allowed {
				t.Errorf("%s: %s has %d lines, over %d: split it, or give the reason in internal/lint", s.at(f), f.Name.Name, n, maxFuncLines)
			}
		}
	}
}

// TestExceptionsAreUsed checks that every exception names a file that is there.
func TestExceptionsAreUsed(t *testing.T) {
	all := sources(t)
	for _, table := range []map[string]string{cgoFiles, inexactAllowed, mayBlock, longFiles} {
		for path, why := range table {
			found := why != ""
			if found {
				found = false
				for _, s := range all {
					found = found || s.in(map[string]string{path: why})
				}
			}
			if !found {
				t.Errorf("the exception for %s (%q) has no reason or names nothing: delete it in internal/lint", path, why)
			}
		}
	}
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
