package seal

import (
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// NonceBytes is the length of a nonce in a handshake.
const NonceBytes = 32

// recordsPerKey is the number of records after which a direction replaces its key. With
// records of Conn's length that is 512 GiB, far below the limit of either suite.
const recordsPerKey = 1 << 24

// ErrForged is the error of a record that the peer did not seal, or that is not the next one
// that it sealed.
var ErrForged = errors.New("a record differs from the one that the peer sent: it was changed, repeated, left out or redirected on the way")

// Ephemeral is one end's key of a handshake. Each connection has another.
type Ephemeral struct{ key *ecdh.PrivateKey }

// NewEphemeral draws a key.
func NewEphemeral() Ephemeral {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic("seal: " + err.Error()) // crypto/rand never fails
	}
	return Ephemeral{key}
}

// Nonce is the public key, to be sent to the peer.
func (e Ephemeral) Nonce() []byte { return e.key.PublicKey().Bytes() }

// Agree derives the keys of a connection. theirs is the peer's nonce. first is true at the end
// that dialled. Both ends must pass the same suite, secret, purpose and transcript. It fails
// if theirs is not a valid nonce.
func (e Ephemeral) Agree(suite Suite, secret, theirs []byte, first bool, purpose string, transcript ...[]byte) (*Pair, error) {
	public, err := ecdh.X25519().NewPublicKey(theirs)
	if err != nil {
		return nil, err
	}
	shared, err := e.key.ECDH(public)
	if err != nil {
		return nil, err
	}
	salt := sha256.New()
	for _, part := range transcript {
		salt.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		salt.Write(part)
	}
	prk, err := hkdf.Extract(sha256.New, append(shared, secret...), salt.Sum(nil))
	if err != nil {
		return nil, err
	}
	p := &Pair{Out: newDirection(suite, prk, purpose, fromFirst), In: newDirection(suite, prk, purpose, toFirst)}
	if !first {
		p.Out, p.In = p.In, p.Out
	}
	return p, nil
}

// Pair is the two directions of a connection, as one end sees them. Each may be used
// by one goroutine at a time.
type Pair struct{ Out, In *Direction }

const (
	fromFirst = 1
	toFirst   = 2
)

// Direction numbers records and seals or opens them.
type Direction struct {
	suite  Suite
	key    []byte
	aead   cipher.AEAD
	nonce  [chachaNonceBytes]byte
	number uint64 // of the next record under this key
	before uint64 // records under earlier keys
	limit  uint64
}

const chachaNonceBytes = 12 // and GCM's

func newDirection(suite Suite, prk []byte, purpose string, which byte) *Direction {
	d := &Direction{suite: suite, limit: recordsPerKey}
	d.nonce[0] = which
	d.deriveKey(prk, fmt.Sprintf("%s %v direction %d", purpose, suite, which))
	return d
}

// deriveKey replaces the key by one derived from another, which cannot be recovered from it.
func (d *Direction) deriveKey(from []byte, info string) {
	key, err := hkdf.Expand(sha256.New, from, info, KeyBytes)
	if err != nil {
		panic("seal: " + err.Error()) // the length is a constant
	}
	d.key, d.aead = key, d.suite.newAEAD(key)
	d.before += d.number
	d.number = 0
}

// nextNonce is the nonce of the next record.
func (d *Direction) nextNonce() []byte {
	if d.number == d.limit {
		d.deriveKey(d.key, "next key")
	}
	binary.BigEndian.PutUint64(d.nonce[4:], d.number)
	d.number++
	return d.nonce[:]
}

// Seal appends the ciphertext of plaintext and its tag to dst. The tag authenticates head too.
// plaintext may begin at the end of dst.
func (d *Direction) Seal(dst, plaintext, head []byte) []byte {
	return d.aead.Seal(dst, d.nextNonce(), plaintext, head)
}

// Open appends the plaintext of sealed to dst. Its error is ErrForged; the direction cannot be
// used after it. The memory of dst beyond its length may have been cleared.
func (d *Direction) Open(dst, sealed, head []byte) ([]byte, error) {
	out, err := d.aead.Open(dst, d.nextNonce(), sealed, head)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", d.before+d.number-1, ErrForged)
	}
	return out, nil
}
