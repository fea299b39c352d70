package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ecrec/ecrec"

// source is one Go file of the repository; paths are relative to its root and
// use slashes.
type source struct {
	path  string // transport/mem.go
	pkg   string // transport
	file  *ast.File
	fset  *token.FileSet
	lines int
}

// at is file:line of a node.
func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// production reports whether the file is part of what ships: no test, and no
// package that only tests use.
func (s source) production() bool {
	return !strings.HasSuffix(s.path, "_test.go") && !strings.HasSuffix(s.pkg, "test")
}

// in reports whether the file, or a folder above it, is in a table.
func (s source) in(table map[string]string) bool {
	for p := s.path; p != "." && p != "/"; p = filepath.ToSlash(filepath.Dir(p)) {
		if _, ok := table[p]; ok {
			return true
		}
	}
	return false
}

// sources reads every Go file of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	const root = "../.."
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "runs" || name == "build") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		all = append(all, source{rel, filepath.ToSlash(filepath.Dir(rel)), f, fset, fset.File(f.FileStart).LineCount()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("found %d Go files only: is %s still the root?", len(all), root)
	}
	return all
}

// imported is the name under which a file knows a package, "" when it does not.
func (s source) imported(path string) string {
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil || p != path {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}

// uses lists the selections pkg.Name in a file of names of an imported package.
func (s source) uses(path string, names map[string]bool) []*ast.SelectorExpr {
	alias := s.imported(path)
	if alias == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	ast.Inspect(s.file, func(n ast.Node) bool {
		if e, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := e.X.(*ast.Ident); ok && x.Name == alias && names[e.Sel.Name] {
				found = append(found, e)
			}
		}
		return true
	})
	return found
}

// set makes a set of words.
func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}
