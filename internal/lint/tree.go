package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Tree is the source text of one Go module. Paths are relative to its root and
// use slashes. Nested modules, hidden folders, testdata, outputs and generated Go files are left out.
type Tree struct {
	Root   string
	Module string // the module's import path
	Fset   *token.FileSet
	Go     []File   // every Go file
	Docs   []string // every *.md file
	Others []string // assembly, C, CUDA, shell and make files
}

// File is one Go file of a tree.
type File struct {
	Path  string // transport/mem.go
	Pkg   string // transport
	AST   *ast.File
	Fset  *token.FileSet
	Lines int
	Text  []byte
}

// skippedFolders hold no source text that people write.
var skippedFolders = set("testdata runs build site")

// otherMarks are the line comment marks of files that are not Go, by the end of
// the file's name.
var otherMarks = []struct{ suffix, mark string }{
	{".s", "//"}, {".cu", "//"}, {".cuh", "//"}, {".c", "//"}, {".cpp", "//"}, {".h", "//"},
	{".sh", "#"}, {"Makefile", "#"}, {".ci/run", "#"},
}

// ReadTree reads the module whose go.mod is in root.
func ReadTree(root string) (*Tree, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	t := &Tree{Root: root, Fset: token.NewFileSet()}
	if _, err := fmt.Sscanf(string(mod[max(0, strings.Index(string(mod), "module ")):]), "module %s", &t.Module); err != nil {
		return nil, fmt.Errorf("%s: no module line: %w", filepath.Join(root, "go.mod"), err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			_, noModule := os.Stat(filepath.Join(path, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci"
			if rel != "." && (hidden || skippedFolders[d.Name()] || noModule == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		return t.addFile(rel)
	})
	return t, err
}

// addFile adds the file rel to the list of its kind.
func (t *Tree) addFile(rel string) error {
	switch {
	case strings.HasSuffix(rel, ".go"):
		text, err := t.readFile(rel)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(t.Fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(f) {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		t.Go = append(t.Go, File{rel, pkg, f, t.Fset, t.Fset.File(f.FileStart).LineCount(), text})
	case strings.HasSuffix(rel, ".md"):
		t.Docs = append(t.Docs, rel)
	case otherMark(rel) != "":
		t.Others = append(t.Others, rel)
	}
	return nil
}

func (t *Tree) readFile(rel string) ([]byte, error) { return os.ReadFile(filepath.Join(t.Root, rel)) }

// otherMark is the comment mark of a file that is not Go, "" if it has none.
func otherMark(path string) string {
	for _, m := range otherMarks {
		if strings.HasSuffix(path, m.suffix) {
			return m.mark
		}
	}
	return ""
}

// Packages lists the folders that hold Go files.
func (t *Tree) Packages() []string {
	var all []string
	for _, f := range t.Go {
		all = append(all, f.Pkg)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// packageOf is the folder of a package of the module, "." for the root.
func (t *Tree) packageOf(path string) (pkg string, ours bool) {
	if path == t.Module {
		return ".", true
	}
	return strings.CutPrefix(path, t.Module+"/")
}

// position returns file:line of a node.
func (f File) position(n ast.Node) string {
	return f.Path + ":" + strconv.Itoa(f.Fset.Position(n.Pos()).Line)
}

// isTest reports whether the file is compiled into tests only.
func (f File) isTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// isProduction reports whether the file is part of the program: not a test, and
// not in a package that only tests use.
func (f File) isProduction() bool { return !f.isTest() && !strings.HasSuffix(f.Pkg, "test") }

// isIn reports whether the file, or a folder above it, is in a table.
func (f File) isIn(table map[string]string) bool {
	for p := f.Path; p != "." && p != "/"; p = filepath.ToSlash(filepath.Dir(p)) {
		if _, ok := table[p]; ok {
			return true
		}
	}
	return false
}

// importName is the name under which the file imports a package, "" if it does not.
func (f File) importName(path string) string {
	for _, i := range f.AST.Imports {
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

// findUses lists the selections pkg.Name in the file, for names of an imported package.
func (f File) findUses(path string, names map[string]bool) []*ast.SelectorExpr {
	alias := f.importName(path)
	if alias == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	ast.Inspect(f.AST, func(n ast.Node) bool {
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
