package bench

import _ "embed"

//go:embed papers.toml
var papers []byte

// Papers returns papers.toml: the figures of the papers, and the values in their texts.
func Papers() []byte { return papers }
