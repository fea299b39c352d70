// Package digest fingerprints a model: a keyed 128-bit sum of hashes, modulo
// 2^128, over its parts. Addition commutes, so the digest does not depend on
// where the parts live or in which order they are visited.
package digest
