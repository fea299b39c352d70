package bench

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The list of benchmarks has a line of at most 100 columns for each.
func TestListFits(t *testing.T) {
	for _, b := range All() {
		if n := 13 + len(b.Doc); n > 100 || strings.HasSuffix(b.Doc, ".") || b.Doc == "" {
			t.Errorf("%s: %d columns, %q", b.Name, n, b.Doc)
		}
	}
}

// Each setting has a meaning, and defaults that are among its accepted values.
func TestDefaultsAreAllowed(t *testing.T) {
	for _, b := range All() {
		for i, s := range b.Settings {
			if s.Doc == "" || s.Allowed == "" {
				t.Errorf("%s: %s: no description", b.Name, s.Name)
			}
			if b.setting(s.Name) != &b.Settings[i] {
				t.Errorf("%s: %s is declared twice", b.Name, s.Name)
			}
			if s.Default == "" && !strings.Contains(s.Doc, "Default: ") {
				t.Errorf("%s: %s: the description names no default", b.Name, s.Name)
			}
			for _, value := range []string{s.Default, s.tiny} {
				if value != "" && s.check != nil && !s.check(value) {
					t.Errorf("%s: the default %s=%s is not allowed", b.Name, s.Name, value)
				}
			}
		}
	}
}

// A setting is read if and only if a benchmark declares it: the program has no other way to
// read one, and panics for a key that is not declared.
func TestSettingsAreDeclaredAndRead(t *testing.T) {
	declared, read := map[string]bool{}, keysRead(t)
	for _, b := range All() {
		for _, s := range b.Settings {
			declared[s.Name] = true
			if !read[s.Name] {
				t.Errorf("%s: nothing reads %s", b.Name, s.Name)
			}
		}
	}
	for key := range read {
		if !declared[key] {
			t.Errorf("%s is read and not declared", key)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("reading a setting that is not declared does not panic")
		}
	}()
	o, _ := ecBench.options(Options{})
	o.text("device")
}

// keysRead returns the keys with which the package's code reads settings.
func keysRead(t *testing.T) map[string]bool {
	keys := map[string]bool{"csv": true, "png": true, "svg": true} // read in a loop
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			method, isMethod := call.Fun.(*ast.SelectorExpr)
			literal, isLiteral := call.Args[0].(*ast.BasicLit)
			if isMethod && isLiteral && slices.Contains([]string{"text", "number", "numbers", "isSet", "shortTime"}, method.Sel.Name) {
				key, _ := strconv.Unquote(literal.Value) // a literal of the parser
				keys[key] = true
			}
			return true
		})
	}
	return keys
}

func TestBadSettingsAreNamed(t *testing.T) {
	b := Bench{Name: "b", Settings: []Setting{number("n", "1", 1, 9, "a number"), numbers("list", "1,2", 1, 9, "numbers"),
		choice("pick", "x", []string{"x", "y"}, "a choice"), text("any", "", "a text", "a text")},
		measure: func(_ io.Writer, o Options) (*Report, error) { return nil, nil }}
	for arg, want := range map[string]string{
		"n=0": "n=0: want a number from 1 to 9", "n=": "n=: want a number", "n=x": "n=x: want a number",
		"list=1,": "list=1,: want numbers from 1 to 9, separated by commas",
		"list=10": "list=10: want", "pick=z": "pick=z: want x or y",
		"m=1": `"m=1" is not a setting of b; see ecrec bench b --help`, "n": `"n" is not a setting of b`,
	} {
		if _, err := b.Run(io.Discard, Options{Args: []string{arg}}); !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	o, err := b.options(Options{Args: []string{"n=3", "n=4", "list=5,6", "any=", "pick=y"}})
	if err != nil || o.number("n") != 3 || !slices.Equal(o.numbers("list"), []int{5, 6}) || !o.isSet("any") ||
		o.text("any") != "" || o.text("pick") != "y" {
		t.Errorf("%+v, %v", o, err)
	}
	o, _ = b.options(Options{})
	if o.number("n") != 1 || !slices.Equal(o.numbers("list"), []int{1, 2}) || o.isSet("n") || o.text("pick") != "x" {
		t.Errorf("defaults: %+v", o)
	}
}
