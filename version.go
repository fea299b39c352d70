package ecrec

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version is the version in the file VERSION, without a "v": 0.5.0.
func Version() string { return strings.TrimSpace(version) }
