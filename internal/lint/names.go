package lint

import (
	"cmp"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// method is an unexported method of production code.
type method struct {
	pkg, receiver, name string
}

// methods lists the unexported methods of production files.
func (t *Tree) methods(isWanted func(path string) bool) []method {
	var all []method
	for _, f := range t.Go {
		if !f.isProduction() || !isWanted(f.Path) {
			continue
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv != nil && !fn.Name.IsExported() && fn.Name.Name != "_" {
				all = append(all, method{f.Pkg, receiverName(fn), fn.Name.Name})
			}
		}
	}
	slices.SortFunc(all, func(a, b method) int {
		return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.receiver, b.receiver), strings.Compare(a.name, b.name))
	})
	return slices.Compact(all) // a method may have one body for each platform
}

// receiverName is the name of the type that a method belongs to.
func receiverName(fn *ast.FuncDecl) string { return typeName(fn.Recv.List[0].Type) }

// typeName is the name of the type that an expression such as *T[int] refers to,
// "" if it is of another package or has no name.
func typeName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// isBareWord reports whether a name is one word: a verb without its object.
func isBareWord(name string) bool { return strings.ToLower(name) == name }

// interfaceMethods holds "package method" for each unexported method that an
// interface demands. Interfaces can demand such a method only of their own package.
func (t *Tree) interfaceMethods() map[string]bool {
	all := map[string]bool{}
	for _, f := range t.Go {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			i, ok := n.(*ast.InterfaceType)
			if !ok {
				return true
			}
			for _, m := range i.Methods.List {
				for _, name := range m.Names {
					all[f.Pkg+" "+name.Name] = true
				}
			}
			return true
		})
	}
	return all
}

// NameCount is a name and how often it is used.
type NameCount struct {
	Name string
	N    int
}

// MethodNames measures the names of the unexported methods of a package, or of a
// tree. A name that several types use counts once.
type MethodNames struct {
	N         int         // names
	BareWords []string    // the names that are one bare word
	Letters   int         // of all names
	Receivers []NameCount // the types that have a method of a name that no interface demands, most first
}

// BareShare is the share of names that are one bare word, in per cent.
func (m MethodNames) BareShare() float64 {
	return 100 * float64(len(m.BareWords)) / float64(max(1, m.N))
}

// MeanLength is the mean length of the names in letters.
func (m MethodNames) MeanLength() float64 { return float64(m.Letters) / float64(max(1, m.N)) }

// MethodNames measures the names of unexported methods.
func (t *Tree) MethodNames(isWanted func(path string) bool) MethodNames {
	demanded := t.interfaceMethods()
	var names MethodNames
	receivers := map[string]int{}
	seen := map[string]bool{}
	for _, m := range t.methods(isWanted) {
		if !seen[m.name] {
			seen[m.name] = true
			names.N++
			names.Letters += len(m.name)
			if isBareWord(m.name) {
				names.BareWords = append(names.BareWords, m.receiver+"."+m.name)
			}
		}
		if !demanded[m.pkg+" "+m.name] {
			receivers[m.name]++
		}
	}
	names.Receivers = sortedCounts(receivers)
	return names
}

// CommonMethods lists the wanted methods whose name more than maxReceivers types of
// the tree have, as "package.type.method".
func (t *Tree) CommonMethods(isWanted func(path string) bool) []string {
	isCommon := map[string]bool{}
	for _, r := range t.MethodNames(Under("")).Receivers {
		isCommon[r.Name] = r.N > maxReceivers
	}
	demanded := t.interfaceMethods()
	var all []string
	for _, m := range t.methods(isWanted) {
		if isCommon[m.name] && !demanded[m.pkg+" "+m.name] {
			all = append(all, m.pkg+"."+m.receiver+"."+m.name)
		}
	}
	return all
}

// sortedCounts lists counts, most first.
func sortedCounts(counts map[string]int) []NameCount {
	var all []NameCount
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, NameCount{name, counts[name]})
	}
	slices.SortStableFunc(all, func(a, b NameCount) int { return b.N - a.N })
	return all
}
