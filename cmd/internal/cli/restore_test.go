package cli

import (
	"strings"
	"testing"

	"github.com/ecrec/ecrec/follow"
)

func TestSources(t *testing.T) {
	for text, want := range map[string]source{
		"file:topic":       {"file:topic", follow.Newest},
		"file:a/b@2/topic": {"file:a/b@2/topic", follow.Newest},
		"file:a/topic@0":   {"file:a/topic", 0},
		"file:a@3@12":      {"file:a@3", 12},
		"kafka://a:1/t":    {"kafka://a:1/t", follow.Newest},
		"kafka://a:1,b:2/t@120?tls=true&sasl=plain": {"kafka://a:1,b:2/t?tls=true&sasl=plain", 120},
		"kafka://a:1/t?tls=true@120":                {"kafka://a:1/t?tls=true", 120},
		"kafka://a:1/t?tls=true":                    {"kafka://a:1/t?tls=true", follow.Newest},
	} {
		if got, ok, err := parseSource(text); err != nil || !ok || got != want {
			t.Errorf("%s: %+v, %v, %v", text, got, ok, err)
		}
	}
	for _, text := range []string{"auto", "", "ck/step-000000000010", "a@3"} {
		if _, ok, err := parseSource(text); ok || err != nil {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
	for text, part := range map[string]string{"file:": "is not file:DIR", "file:a@x": "@x is not a step",
		"kafka://a:1/t@-1": "@-1 is not a step",
		"kafka://a/t@5":    "is not HOST:PORT", "kafka://u:p@a:1/t@5": "credentials are not part of the name", "kafka://a:1/": "names no topic"} {
		if _, ok, err := parseSource(text); !ok || err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
}
