// Package digest fingerprints a model: a keyed 128-bit sum of hashes, modulo
// 2^128, over its parts. Addition commutes, so the digest depends neither on the place of
// the parts nor on the order in which they are visited.
package digest
