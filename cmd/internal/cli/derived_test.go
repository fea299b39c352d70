package cli

import "testing"

// TestSameTopic: the topic that is followed is found under its other names too.
func TestSameTopic(t *testing.T) {
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{"file:a", "file:./a/", true},
		{"file:a", "file:b", false},
		{"file:testdata", "file:../cli/testdata", true},
		{"file:a", "kafka://h:1/a", false},
		{"kafka://h:1,i:1/a?tls=true", "kafka://i:1/a", true},
		{"kafka://h:1/a", "kafka://h:1/b", false},
		{"kafka://h:1/a", "kafka://i:1/a", false},
	} {
		if isSameTopic(x.a, x.b) != x.same || isSameTopic(x.b, x.a) != x.same {
			t.Errorf("%s and %s: want %v", x.a, x.b, x.same)
		}
	}
}
