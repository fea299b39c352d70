package digest

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Sum is a 128-bit digest; the zero value is the digest of nothing.
type Sum struct{ Hi, Lo uint64 }

// Add adds o modulo 2^128.
func (s *Sum) Add(o Sum) {
	var carry uint64
	s.Lo, carry = bits.Add64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, o.Hi, carry)
}

// Sub subtracts o modulo 2^128.
func (s *Sum) Sub(o Sum) {
	var borrow uint64
	s.Lo, borrow = bits.Sub64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Sub64(s.Hi, o.Hi, borrow)
}

// String returns the digest as 32 hexadecimal digits.
func (s Sum) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.Hi)
	binary.BigEndian.PutUint64(b[8:], s.Lo)
	return hex.EncodeToString(b[:])
}

// Of hashes one part of a model. kind is its sort (a row, a dense tensor), key identifies it,
// value is its bytes.
func Of(kind string, key, value []byte) Sum {
	u := xxh3.Hash128Seed(value, xxh3.HashSeed(key, xxh3.HashString(kind)))
	return Sum{u.Hi, u.Lo}
}
