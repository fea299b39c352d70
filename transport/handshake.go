package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The handshake, D the process that dials and A the one that accepts:
//
//	D: hello   version, generation, from, to, the world's digest, a nonce
//	A: answer  status, version, generation, a nonce, HMAC("accept", hello, answer)
//	D: proof   HMAC("dial", hello, answer)
//	A: a byte that says that the proof is right, and whether to share memory
//
// The key is the job's secret. Both nonces are fresh, so nothing can be replayed,
// and the two labels keep one end's proof from serving as the other's. Both sides
// compare in constant time. A bad hello is answered with a status in clear, so
// that a misconfigured peer can say what is wrong.

const (
	nonceBytes  = 32
	helloBytes  = 8 + 4 + 8 + 4 + 4 + sha256.Size + 1 + nonceBytes
	answerBytes = 1 + 4 + 8 + nonceBytes
	macBytes    = sha256.Size
)

var helloMagic = [8]byte{'e', 'c', 'r', 'e', 'c', 'n', 'e', 't'}

const (
	statusOK = iota + 1
	statusVersion
	statusGeneration
	statusWorld
	statusUnexpected
	statusProved
	statusSharing
)

// JoinError says why a process could not be reached, or be believed.
type JoinError struct {
	Process int // of NetOptions.Processes
	Addr    string
	Cause   error
}

func (e *JoinError) Error() string {
	return fmt.Sprintf("transport: process %d at %s: %v", e.Process, e.Addr, e.Cause)
}

func (e *JoinError) Unwrap() error { return e.Cause }

// ErrSecret is the cause of a JoinError where the peer does not know the secret.
var ErrSecret = errors.New("it does not know the job's secret: another job uses this address, or the processes were given different secrets")

// temporary is a failure that may pass: dial again.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

type hello struct {
	version      uint32
	generation   uint64
	from, to     uint32
	world        [sha256.Size]byte
	sharedMemory bool
}

func (h *hello) encode() []byte {
	b := append([]byte(nil), helloMagic[:]...)
	b = binary.LittleEndian.AppendUint32(b, h.version)
	b = binary.LittleEndian.AppendUint64(b, h.generation)
	b = binary.LittleEndian.AppendUint32(b, h.from)
	b = binary.LittleEndian.AppendUint32(b, h.to)
	b = append(b, h.world[:]...)
	shared := byte(0)
	if h.sharedMemory {
		shared = 1
	}
	return append(b, shared)
}

func decodeHello(b []byte) (h hello, ok bool) {
	le := binary.LittleEndian
	h = hello{
		version: le.Uint32(b[8:]), generation: le.Uint64(b[12:]), from: le.Uint32(b[20:]), to: le.Uint32(b[24:]),
		world: [sha256.Size]byte(b[28:60]), sharedMemory: b[60] == 1,
	}
	return h, [8]byte(b[:8]) == helloMagic
}

// worldDigest stands for what the processes must agree on.
func worldDigest(processes []Process) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range processes {
		_, _ = fmt.Fprintln(h, p.Ranks)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func proof(secret []byte, label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	_, _ = m.Write([]byte(label))
	for _, p := range parts {
		_, _ = m.Write(p)
	}
	return m.Sum(nil)
}

func withNonce(b []byte) []byte {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return append(b, nonce...)
}

// introduce is D's side. It reports whether to share memory.
func introduce(conn net.Conn, secret []byte, mine hello) (sharing bool, err error) {
	first := withNonce(mine.encode())
	answer := make([]byte, answerBytes+macBytes)
	if _, err := conn.Write(first); err != nil {
		return false, temporary{err}
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return false, temporary{fmt.Errorf("it hung up on a greeting: %w", err)}
	}
	answer, mac := answer[:answerBytes], answer[answerBytes:]
	version, generation := binary.LittleEndian.Uint32(answer[1:]), binary.LittleEndian.Uint64(answer[5:])
	switch answer[0] {
	case statusVersion:
		return false, fmt.Errorf("it speaks protocol version %d, this process %d: run the same build everywhere", version, mine.version)
	case statusGeneration:
		err := fmt.Errorf("it is in generation %d, this process in %d", generation, mine.generation)
		if generation < mine.generation {
			return false, temporary{err} // it may follow
		}
		return false, err
	case statusWorld:
		return false, errors.New("it was given another list of processes")
	case statusUnexpected:
		return false, temporary{errors.New("it does not expect this process")}
	}
	if !hmac.Equal(mac, proof(secret, "accept", first, answer)) {
		return false, ErrSecret
	}
	if _, err := conn.Write(proof(secret, "dial", first, answer)); err != nil {
		return false, temporary{err}
	}
	var status [1]byte
	if _, err := io.ReadFull(conn, status[:]); err != nil {
		return false, temporary{fmt.Errorf("it hung up on this process's proof: %w", err)}
	}
	return status[0] == statusSharing, nil
}

// examine is A's side. It returns who dials; sharedMemory then says whether to
// share memory.
func (w *netWorld) examine(conn net.Conn, secret []byte, expects func(process int) bool, canShare func(process int) bool) (hello, error) {
	first := make([]byte, helloBytes)
	if _, err := io.ReadFull(conn, first); err != nil {
		return hello{}, err
	}
	theirs, ok := decodeHello(first)
	if !ok {
		return theirs, errors.New("no greeting of ecrec")
	}
	status := byte(statusOK)
	switch {
	case theirs.version != protocolVersion:
		status = statusVersion
	case theirs.generation != w.generation:
		status = statusGeneration
		if theirs.generation < w.generation {
			w.stats.StaleFrames.Add(1)
		}
	case theirs.world != worldDigest(w.processes) || int(theirs.to) != w.self || int(theirs.from) <= w.self || int(theirs.from) >= len(w.processes):
		status = statusWorld
	case !expects(int(theirs.from)):
		status = statusUnexpected
	}
	answer := binary.LittleEndian.AppendUint32([]byte{status}, protocolVersion)
	answer = withNonce(binary.LittleEndian.AppendUint64(answer, w.generation))
	if _, err := conn.Write(append(answer, proof(secret, "accept", first, answer)...)); err != nil {
		return theirs, err
	}
	if status != statusOK {
		return theirs, fmt.Errorf("process %d of generation %d was refused with status %d", theirs.from, theirs.generation, status)
	}
	mac := make([]byte, macBytes)
	if _, err := io.ReadFull(conn, mac); err != nil {
		return theirs, err
	}
	if !hmac.Equal(mac, proof(secret, "dial", first, answer)) {
		return theirs, ErrSecret
	}
	last := byte(statusProved)
	theirs.sharedMemory = theirs.sharedMemory && canShare(int(theirs.from))
	if theirs.sharedMemory {
		last = statusSharing
	}
	_, err := conn.Write([]byte{last})
	return theirs, err
}
