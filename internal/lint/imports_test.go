package lint

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the layering, low to high: a package may import those named and
// nothing else of this module.
//
//go:embed imports.txt
var mayImport string

// importRow is one package, the packages that it may import, and the reason.
type importRow struct {
	pkg, why string
	allowed  []string
}

// importRows reads the table.
func importRows(t *testing.T) []importRow {
	t.Helper()
	var rows []importRow
	for i, line := range strings.Split(mayImport, "\n") {
		pkg, why, isRow := strings.Cut(line, ": ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t") && len(rows) > 0:
			last := &rows[len(rows)-1]
			last.allowed = append(last.allowed, strings.TrimSpace(line))
		case isRow:
			rows = append(rows, importRow{pkg: pkg, why: why})
		default:
			t.Fatalf("internal/lint/imports.txt:%d: %q is neither `package: reason` nor a tab and an import", i+1, line)
		}
	}
	return rows
}

// TestImportsGoDown checks that production files import only packages that
// the table allows, and that the table is in order: each package is below its users.
func TestImportsGoDown(t *testing.T) {
	allowed, why := map[string]map[string]bool{}, map[string]string{}
	for _, row := range importRows(t) {
		for _, p := range row.allowed {
			if _, below := allowed[p]; !below {
				t.Errorf("internal/lint/imports.txt lets %s import %s, which is not above it there: order the rows low to high, without circles",
					row.pkg, p)
			}
		}
		if !slices.IsSorted(row.allowed) {
			t.Errorf("internal/lint/imports.txt: sort the imports of %s", row.pkg)
		}
		allowed[row.pkg], why[row.pkg] = set(strings.Join(row.allowed, " ")), row.why
	}
	tree := repository(t)
	for _, s := range tree.Go {
		if !s.isProduction() {
			continue
		}
		if _, ok := allowed[s.Pkg]; !ok {
			t.Errorf("%s: package %s is not in internal/lint/imports.txt; add a row that says what it may import, and why", s.Path, s.Pkg)
			continue
		}
		for _, i := range s.AST.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			p, ours := tree.packageOf(path)
			if ours && !allowed[s.Pkg][p] {
				t.Errorf("%s: %s may not import %s, because %s; pass what is needed in from above, or move the shared part below both",
					s.position(i), s.Pkg, p, why[s.Pkg])
			}
		}
	}
}

// TestTableIsTrue checks that no row of the table allows an unused import.
func TestTableIsTrue(t *testing.T) {
	used := map[string]bool{}
	tree := repository(t)
	for _, s := range tree.Go {
		for _, i := range s.AST.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if p, ours := tree.packageOf(path); ours {
				used[s.Pkg+" "+p] = true
			}
		}
		used[s.Pkg] = true
	}
	for _, row := range importRows(t) {
		if !used[row.pkg] {
			t.Errorf("package %s is gone: delete its row in internal/lint/imports.txt", row.pkg)
		}
		for _, p := range row.allowed {
			if row.pkg != "bench" && !used[row.pkg+" "+p] {
				t.Errorf("%s no longer imports %s: delete it from its row in internal/lint/imports.txt", row.pkg, p)
			}
		}
	}
}
