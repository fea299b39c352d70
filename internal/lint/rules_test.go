package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cgoFiles are the edges to C.
var cgoFiles = map[string]string{
	"bench/sgemm/sgemm_cgo.go":          "opens libraries of products at run time, to compare with them",
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
	for _, s := range repository(t).Go {
		if s.importName("C") != "" && !s.isIn(cgoFiles) {
			t.Errorf("%s: import \"C\" is allowed only in the edges %v, so that CGO_ENABLED=0 builds; put the call behind one of them", s.Path,
				keys(cgoFiles))
		}
	}
}

// inexact are the functions of math whose bits depend on the CPU's features or
// that are not correctly rounded.
var inexact = set("Exp Exp2 Expm1 Log Log1p Log2 Log10 Pow Tanh Sinh Cosh Sin Cos Tan Atan Atan2 Cbrt Gamma Erf Hypot")

// inexactAllowed may use them, for numbers that are only shown.
var inexactAllowed = map[string]string{}

func TestMathIsExact(t *testing.T) {
	for _, s := range repository(t).Go {
		if !s.isProduction() || s.isIn(inexactAllowed) {
			continue
		}
		for _, e := range s.findUses("math", inexact) {
			t.Errorf("%s: math.%s gives other bits on other CPUs; use the exact functions of internal/f32", s.position(e), e.Sel.Name)
		}
	}
}

// mayBlock may use the clock, goroutines and locks directly: no rank runs there,
// or the package hides them.
var mayBlock = map[string]string{
	"internal/env":                      "maps Env to the Go runtime",
	"cmd/internal/cli":                  "above the ranks: signals",
	"launcher":                          "beside the ranks: processes, signals, timers; launcher/control decides without them",
	"launcher/wire":                     "beside the ranks: sockets with deadlines",
	"launcher/place":                    "beside the ranks: sockets with deadlines, until the job begins",
	"cmd/internal/tensorboard":          "above the ranks: the time of a value",
	"internal/event":                    "above the ranks: the time of an event",
	"cmd/internal/exporter":             "beside the ranks: a web server; a lock is held for a copy",
	"cmd/internal/hook":                 "above the ranks: users' commands, with a time limit",
	"cmd/internal/report":               "above the ranks: the terminal's clock",
	"internal/nvml/nvml.go":             "beside the ranks: samples a GPU regularly",
	"cmd/internal/doctor":               "above the ranks: time limits of foreign programs",
	"bench":                             "measures with the clock",
	"forecast":                          "measures with the clock",
	"serve":                             "beside the follower: requests, deadlines",
	"kernels/pool.go":                   "compute threads, below the ranks",
	"internal/arena/arena.go":           "guards the lists of allocations, and never waits with the lock held; prepares memory beside the ranks",
	"kernels/cpu.go":                    "guards the table of allocations, and never waits with the lock held",
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
	for _, s := range repository(t).Go {
		if !s.isProduction() || s.isIn(mayBlock) {
			continue
		}
		for _, e := range append(s.findUses("time", clock), s.findUses("sync", locks)...) {
			t.Errorf("%s: %s.%s: %s", s.position(e), e.X.(*ast.Ident).Name, e.Sel.Name, instead)
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectStmt:
				t.Errorf("%s: select: %s", s.position(n), instead)
			case *ast.GoStmt:
				t.Errorf("%s: go: %s", s.position(n), instead)
			case *ast.ChanType:
				t.Errorf("%s: chan: %s", s.position(n), instead)
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					t.Errorf("%s: receive: %s", s.position(n), instead)
				}
			}
			return true
		})
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	has, packages := map[string]bool{}, map[string]bool{}
	for _, s := range repository(t).Go {
		if s.AST.Name.Name == "main" || strings.HasSuffix(s.Path, "_test.go") {
			continue
		}
		packages[s.Pkg] = true
		if filepath.Base(s.Path) == "doc.go" && s.AST.Doc != nil {
			has[s.Pkg] = strings.HasPrefix(s.AST.Doc.Text(), "Package "+s.AST.Name.Name+" ")
		}
	}
	for pkg := range packages {
		if !has[pkg] {
			t.Errorf("%s has no doc.go that begins with // Package: write what it owns, its terms, its invariants and its limits", pkg)
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
	for _, s := range repository(t).Go {
		if s.Lines > maxFileLines && !s.isIn(longFiles) {
			t.Errorf("%s has %d lines, over %d: split it by concept, or give the reason in internal/lint", s.Path, s.Lines, maxFileLines)
		}
		if !s.isProduction() {
			continue
		}
		for _, d := range s.AST.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.Fset.Position(f.End()).Line - s.Fset.Position(f.Pos()).Line + 1
			if _, allowed := longFuncs[s.Pkg+" "+f.Name.Name]; n > maxFuncLines && !allowed {
				t.Errorf("%s: %s has %d lines, over %d: split it, or give the reason in internal/lint", s.position(f), f.Name.Name, n, maxFuncLines)
			}
		}
	}
}

// TestExceptionsAreUsed checks that every exception names an existing file.
func TestExceptionsAreUsed(t *testing.T) {
	all := repository(t).Go
	for _, table := range []map[string]string{cgoFiles, inexactAllowed, mayBlock, longFiles} {
		for path, why := range table {
			found := why != ""
			if found {
				found = false
				for _, s := range all {
					found = found || s.isIn(map[string]string{path: why})
				}
			}
			if !found {
				t.Errorf("the exception for %s (%q) has no reason or names nothing: delete it in internal/lint", path, why)
			}
		}
	}
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
