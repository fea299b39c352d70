package lint

import (
	"go/ast"
	"go/build/constraint"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// FileCircle is the largest set of files of a package in which each file uses,
// through others, each other file. None of them can be read or moved alone.
type FileCircle struct {
	Pkg   string
	Of    int      // production files of the package, on linux/amd64 with cgo
	Files []string // the files of the circle, none if it is one file
}

// Share is the circle's share of the package's files, in per cent.
func (c FileCircle) Share() float64 { return 100 * float64(len(c.Files)) / float64(max(1, c.Of)) }

// FileCircle finds the largest circle of files of a package. Uses are resolved
// within the package only: a method called on a value that another package
// returns does not count.
func (t *Tree) FileCircle(pkg string) FileCircle {
	uses := t.fileUses(pkg)
	c := FileCircle{Pkg: pkg, Of: len(uses)}
	reach := map[string]map[string]bool{}
	for f := range uses {
		reach[f] = map[string]bool{}
		addReachable(uses, f, reach[f])
	}
	for _, f := range slices.Sorted(maps.Keys(uses)) {
		var circle []string
		for g := range reach[f] {
			if reach[g][f] {
				circle = append(circle, g)
			}
		}
		if len(circle) > 1 && len(circle) > len(c.Files) {
			slices.Sort(circle)
			c.Files = circle
		}
	}
	return c
}

func addReachable(uses map[string]map[string]bool, from string, reached map[string]bool) {
	for to := range uses[from] {
		if !reached[to] {
			reached[to] = true
			addReachable(uses, to, reached)
		}
	}
}

// fileUses maps each production file of a package to the files whose
// declarations it uses. The files are those of linux/amd64 with cgo.
func (t *Tree) fileUses(pkg string) map[string]map[string]bool {
	uses := map[string]map[string]bool{}
	var files []File
	var parsed []*ast.File
	for _, f := range t.Go {
		if f.Pkg == pkg && !f.isTest() && f.isBuilt() {
			files, parsed = append(files, f), append(parsed, f.AST)
			uses[f.Path] = map[string]bool{}
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, FakeImportC: true, Error: func(error) {}} // unresolved imports are expected
	_, _ = config.Check(pkg, t.Fset, parsed, info)
	declaredIn := map[types.Object]string{}
	eachIdentifier(files, func(f File, id *ast.Ident) {
		if o := info.Defs[id]; o != nil {
			declaredIn[o] = f.Path
		}
	})
	eachIdentifier(files, func(f File, id *ast.Ident) {
		if o := info.Uses[id]; o != nil {
			if path := declaredIn[origin(o)]; path != "" && path != f.Path {
				uses[f.Path][path] = true
			}
		}
	})
	return uses
}

func eachIdentifier(files []File, do func(File, *ast.Ident)) {
	for _, f := range files {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				do(f, id)
			}
			return true
		})
	}
}

// origin is the declared form of an object of a generic type.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// noImports leaves every import unresolved.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, types.Error{Msg: "not resolved"} }

// isBuilt reports whether the file is part of a build for linux/amd64 with cgo.
func (f File) isBuilt() bool {
	base := strings.TrimSuffix(filepath.Base(f.Path), ".go")
	parts := strings.Split(base, "_")
	for _, p := range parts[1:] {
		if foreign[p] {
			return false
		}
	}
	for _, g := range f.AST.Comments {
		for _, c := range g.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.AST.Package {
				return expr.Eval(func(tag string) bool {
					return tag == "linux" || tag == "unix" || tag == "amd64" || tag == "cgo" || tag == "gc" || strings.HasPrefix(tag, "go1.")
				})
			}
		}
	}
	return true
}

// foreign are the systems and processors that the measures leave out, as file
// names show them.
var foreign = set("arm64 arm 386 ppc64le s390x riscv64 wasm darwin windows freebsd openbsd netbsd solaris aix plan9 dragonfly")
