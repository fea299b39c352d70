package stream

import "testing"

// TestIsSame: a topic is found under its other names too.
func TestIsSame(t *testing.T) {
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{"file:a", "file:./a/", true},
		{"file:a", "file:b", false},
		{"file:kafka", "file:../stream/kafka", true},
		{"file:a", "kafka://h:1/a", false},
		{"a", "file:a", true},
		{"topic", "topic", true},
		{"kafka://h:1,i:1/a?tls=true", "kafka://i:1/a", true},
		{"kafka://h:1/a", "kafka://h:1/b", false},
		{"kafka://h:1/a", "kafka://i:1/a", false},
	} {
		if IsSame(x.a, x.b) != x.same || IsSame(x.b, x.a) != x.same {
			t.Errorf("%s and %s: want %v", x.a, x.b, x.same)
		}
	}
}
