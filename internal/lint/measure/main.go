// Command measure prints the measures of internal/lint.
//
//	measure                the module in the working directory: the sum, then each package
//	measure FOLDER...      one column for each module whose root is FOLDER
//	measure -list FOLDER   each phrase that counts in the files of a folder of this module
//	measure -bare FOLDER   its unexported methods that are one bare word, those whose name too
//	                       many types have, and its circle of files
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/ecrec/ecrec/internal/lint"
)

func main() {
	if err := printMeasures(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func printMeasures(w io.Writer, roots []string) error {
	isList := len(roots) == 2 && strings.HasPrefix(roots[0], "-")
	if len(roots) > 0 && !isList {
		return compareTrees(w, roots)
	}
	t, err := lint.ReadTree(".")
	if err != nil {
		return err
	}
	if isList {
		return listFolder(w, t, roots[0], filepath.ToSlash(filepath.Clean(roots[1])))
	}
	measures, err := t.Measures()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range measures {
		fmt.Fprintf(table, "%s\t%.1f\t%s\n", m.Name, m.Value, m.Detail)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printPackages(w, t)
}

// listFolder lists the counted phrases or names of one folder.
func listFolder(w io.Writer, t *lint.Tree, option, folder string) error {
	isWanted := lint.Under(folder)
	if folder == "." {
		isWanted = lint.Under("")
	}
	switch option {
	case "-list":
		matches, err := t.Matches(isWanted)
		for _, m := range matches {
			fmt.Fprintf(w, "%s:%d: %s: ...%s... (%s)\n", m.Path, m.Line, m.Habit, m.At, m.Instead)
		}
		return err
	case "-bare":
		fmt.Fprintln(w, "bare words:", strings.Join(t.MethodNames(isWanted).BareWords, " "))
		fmt.Fprintln(w, "common names:", strings.Join(t.CommonMethods(isWanted), " "))
		fmt.Fprintln(w, "circle:", strings.Join(t.FileCircle(folder).Files, " "))
		return nil
	}
	return fmt.Errorf("option %s is none of -list and -bare", option)
}

// compareTrees prints one column of values for each tree.
func compareTrees(w io.Writer, roots []string) error {
	var columns [][]lint.Measure
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, root := range roots {
		t, err := lint.ReadTree(root)
		if err != nil {
			return err
		}
		measures, err := t.Measures()
		if err != nil {
			return err
		}
		columns = append(columns, measures)
		fmt.Fprintf(table, "\t%s", filepath.Base(root))
	}
	fmt.Fprintln(table)
	for i, m := range columns[0] {
		fmt.Fprint(table, m.Name)
		for _, c := range columns {
			fmt.Fprintf(table, "\t%.1f", c[i].Value)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// printPackages prints one row for each package: phrases per 1,000 comment lines,
// comment lines per 100 code lines, method names, and the circle of its files.
func printPackages(w io.Writer, t *lint.Tree) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tphrases\tsynonyms\tin messages\tcomments\tbare %\tletters\tcircle")
	for _, pkg := range t.Packages() {
		p, err := t.MeasurePackage(pkg)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%d\t%.0f\t%.0f\t%.1f\t%d of %d\n", pkg, p.Phrases, p.Synonyms, p.InMessages,
			p.CommentShare, p.Methods.BareShare(), p.Methods.MeanLength(), len(p.Circle.Files), p.Circle.Of)
	}
	return table.Flush()
}
