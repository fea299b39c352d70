package report

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestSpoolKeepsOrder(t *testing.T) {
	r, w := io.Pipe()
	s := NewSpool(w)
	var want strings.Builder
	for i := range 1000 {
		fmt.Fprintf(s, "line %d\n", i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	got := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		got <- string(all)
	}()
	s.Flush(time.Minute)
	w.Close()
	if text := <-got; text != want.String() {
		t.Errorf("%d bytes came of %d", len(text), want.Len())
	}
}

// Without a reader Write does not wait, and Flush gives up.
func TestSpoolWaitsForNobody(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	s := NewSpool(w)
	line := []byte(strings.Repeat("x", 100))
	for range 3 * spoolBytes / len(line) {
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(s.waiting) > spoolBytes {
		t.Errorf("%d bytes wait", len(s.waiting))
	}
	s.Flush(10 * time.Millisecond)
}
