package lint

import (
	"sync"
	"testing"
)

// readRepository reads this repository once for all rules.
var readRepository = sync.OnceValues(func() (*Tree, error) { return ReadTree("../..") })

func repository(t *testing.T) *Tree {
	t.Helper()
	tree, err := readRepository()
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) < 50 {
		t.Fatalf("found %d Go files only: is %s still the root?", len(tree.Go), tree.Root)
	}
	return tree
}
