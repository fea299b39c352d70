package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/crypto/chacha20poly1305"
)

// Suite is an algorithm for authenticated encryption (AEAD). Handshakes contain its number;
// 0 is none.
type Suite uint8

const (
	AES256GCM        Suite = iota + 1 // the faster one on CPUs with instructions for it
	ChaCha20Poly1305                  // the faster one on other CPUs
)

// KeyBytes is the length of every suite's key. Overhead is the length of a sealed text minus
// that of its plaintext.
const (
	KeyBytes = 32
	Overhead = 16
)

// Fastest is the suite for this machine's CPU.
func Fastest() Suite {
	if cpuid.CPU.Supports(cpuid.AESNI, cpuid.CLMUL) || cpuid.CPU.Supports(cpuid.AESARM, cpuid.PMULL) {
		return AES256GCM
	}
	return ChaCha20Poly1305
}

// Common is the suite for two machines, given the fastest of each.
func Common(a, b Suite) Suite {
	if a == AES256GCM && b == AES256GCM {
		return AES256GCM
	}
	return ChaCha20Poly1305
}

// Valid reports whether there is such a suite.
func (s Suite) Valid() bool { return s == AES256GCM || s == ChaCha20Poly1305 }

func (s Suite) String() string {
	switch s {
	case AES256GCM:
		return "AES-256-GCM"
	case ChaCha20Poly1305:
		return "ChaCha20-Poly1305"
	}
	return fmt.Sprintf("suite %d", uint8(s))
}

// newAEAD panics if the suite or the length of the key is wrong: this package sets both.
func (s Suite) newAEAD(key []byte) cipher.AEAD {
	var a cipher.AEAD
	var err error
	switch s {
	case AES256GCM:
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			a, err = cipher.NewGCM(block)
		}
	case ChaCha20Poly1305:
		a, err = chacha20poly1305.New(key)
	default:
		err = fmt.Errorf("there is no %v", s)
	}
	if err != nil {
		panic("seal: " + err.Error())
	}
	return a
}
