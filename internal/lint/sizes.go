package lint

import (
	"cmp"
	"go/ast"
	"slices"
	"strings"
	"unicode/utf8"
)

// TypeSize is the size of a type of production code.
type TypeSize struct {
	Name            string // train.rank
	Methods, Fields int
	Files           int // files that hold its methods
}

// TypeSizes lists the structs of production files, those with most methods first.
// The fields of an embedded struct of the same package count as the type's own.
func (t *Tree) TypeSizes() []TypeSize {
	methods, files, structs := map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]*ast.StructType{}
	for _, f := range t.Go {
		if !f.isProduction() {
			continue
		}
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				name := f.Pkg + "." + receiverName(fn)
				if methods[name] == nil {
					methods[name], files[name] = map[string]bool{}, map[string]bool{}
				}
				methods[name][fn.Name.Name] = true
				files[name][f.Path] = true
			}
		}
		addStructs(f, structs)
	}
	var all []TypeSize
	for name, s := range structs {
		pkg := name[:strings.LastIndexByte(name, '.')]
		all = append(all, TypeSize{name, len(methods[name]), countFields(pkg, s, structs), len(files[name])})
	}
	slices.SortFunc(all, func(a, b TypeSize) int {
		return cmp.Or(b.Methods-a.Methods, strings.Compare(a.Name, b.Name))
	})
	return all
}

// addStructs adds the structs that a file declares.
func addStructs(f File, structs map[string]*ast.StructType) {
	for _, d := range f.AST.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if spec, ok := s.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					structs[f.Pkg+"."+spec.Name.Name] = st
				}
			}
		}
	}
}

func countFields(pkg string, s *ast.StructType, structs map[string]*ast.StructType) int {
	n := 0
	for _, field := range s.Fields.List {
		embedded := structs[pkg+"."+typeName(field.Type)]
		if len(field.Names) == 0 && embedded != nil && embedded != s {
			n += countFields(pkg, embedded, structs)
			continue
		}
		n += max(1, len(field.Names))
	}
	return n
}

// Longest is the longest file, and the longest function of production files.
func (t *Tree) Longest(isWanted func(path string) bool) (file, function NameCount) {
	for _, f := range t.Go {
		if !isWanted(f.Path) {
			continue
		}
		if f.Lines > file.N {
			file = NameCount{f.Path, f.Lines}
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !f.isProduction() {
				continue
			}
			if n := f.lineCount(fn); n > function.N {
				function = NameCount{f.Pkg + "." + fn.Name.Name, n}
			}
		}
	}
	return file, function
}

// longLines is the number of Go lines with more characters than a limit, per 1,000.
func (t *Tree) longLines(chars int) float64 {
	long, all := 0, 0
	for _, f := range t.Go {
		all += f.Lines
		for line := range strings.Lines(string(f.Text)) {
			if utf8.RuneCountInString(line) > chars+1 {
				long++
			}
		}
	}
	return perThousand(long, all)
}

// lineCount is the number of lines of a node.
func (f File) lineCount(n ast.Node) int {
	return f.Fset.Position(n.End()).Line - f.Fset.Position(n.Pos()).Line + 1
}

// UpwardArrows lists the imports by which a package under internal/ reaches a
// package of the module outside it, the root's version excepted: in a drawing of
// the folders, these arrows point up.
func (t *Tree) UpwardArrows() []string {
	var all []string
	for _, f := range t.Go {
		if !f.isProduction() || !strings.HasPrefix(f.Pkg, "internal/") {
			continue
		}
		for _, i := range f.AST.Imports {
			p, ours := t.packageOf(strings.Trim(i.Path.Value, `"`))
			if ours && p != "." && !strings.HasPrefix(p, "internal/") {
				all = append(all, f.Pkg+" -> "+p)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
