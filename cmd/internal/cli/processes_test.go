package cli

import (
	"errors"
	"strings"
	"testing"
)

// TestEndOfWorld: the world of a rank that was done, and is needed again, has no error.
func TestEndOfWorld(t *testing.T) {
	a, b := endOfWorld(nil), endOfWorld(errors.New("lost\nhere"))
	if a != "the last step" || !strings.HasPrefix(b, "lost") || strings.Contains(b, "\n") {
		t.Errorf("%q, %q", a, b)
	}
}
