package transport

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/ecrec/ecrec/internal/seal"
)

// The handshake; D is the dialling process, A the accepting one:
//
//	D: hello   version, generation, from, to, the world's digest, D's suite, a nonce
//	A: answer  status, version, generation, the suite, a nonce, HMAC("accept", hello, answer)
//	D: proof   HMAC("dial", hello, answer)
//	A: a byte that confirms the proof and decides whether to share memory
//
// The key is the secret of the generation. Both nonces are fresh, so that nothing can be
// replayed. The two labels keep one end's proof from serving as the other's. Both sides
// compare in constant time. A bad hello is answered with a status in clear, so that a
// misconfigured peer can report the reason.
//
// If the connection is to be sealed, D sends its fastest suite, and A answers with the
// one that both use. Otherwise both send none. Each end decides by itself whether to seal
// (Secure) and accepts no other answer. A changed suite invalidates the HMACs. An
// attacker on the network can therefore prevent a connection, but cannot force it to be
// in clear. The nonces are the public halves of X25519 keys, and everything after the
// proof is sealed.

const (
	nonceBytes  = seal.NonceBytes
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
	statusSecure
)

// suiteShift is the position of a suite in a byte that it shares: with shared memory in a
// hello, with the status in an answer. Both keep their lengths of version 4, so that a
// peer of that version is refused because of its version.
const suiteShift = 4

// JoinError reports why a process could not be reached or authenticated.
type JoinError struct {
	Process int // index in NetOptions.Processes
	Addr    string
	Cause   error
}

func (e *JoinError) Error() string {
	return fmt.Sprintf("transport: process %d at %s: %v", e.Process, e.Addr, e.Cause)
}

func (e *JoinError) Unwrap() error { return e.Cause }

// ErrSecret is the cause of a JoinError if the peer does not know the secret.
var ErrSecret = errors.New("it has another secret than this job: another job uses this address, or the processes were given different secrets")

// errSecure means that the peer and this process disagree about sealing the connection.
var errSecure = errors.New("it has another job.secure, or another list of hosts")

// temporary is a failure that may pass: the caller dials again.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// refusal is the reply of a process that refuses a connection.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// noReply is a failure of a connection on which no reply was received.
type noReply struct{ error }

func (n noReply) Unwrap() error { return n.error }

type hello struct {
	version      uint32
	generation   uint64
	from, to     uint32
	world        [sha256.Size]byte
	sharedMemory bool
	suite        seal.Suite // the dialler's fastest; 0: the connection is not sealed
}

func (h *hello) encodeHello() []byte {
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
	return append(b, shared|byte(h.suite)<<suiteShift)
}

func decodeHello(b []byte) (h hello, ok bool) {
	le := binary.LittleEndian
	h = hello{
		version: le.Uint32(b[8:]), generation: le.Uint64(b[12:]), from: le.Uint32(b[20:]), to: le.Uint32(b[24:]),
		world: [sha256.Size]byte(b[28:60]), sharedMemory: b[60]&1 == 1, suite: seal.Suite(b[60] >> suiteShift),
	}
	return h, [8]byte(b[:8]) == helloMagic
}

// worldDigest is a digest of the configuration on which the processes must agree.
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

// handshakeResult is a connection whose ends have authenticated each other.
type handshakeResult struct {
	hello
	conn    net.Conn // sealed if that was agreed
	sharing bool     // shared memory
}

// dialHandshake is D's side.
func dialHandshake(conn net.Conn, secret []byte, mine hello) (m handshakeResult, err error) {
	key := seal.NewEphemeral()
	first := append(mine.encodeHello(), key.Nonce()...)
	answer := make([]byte, answerBytes+macBytes)
	if _, err := conn.Write(first); err != nil {
		return m, temporary{noReply{err}}
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return m, temporary{noReply{fmt.Errorf("it closed the connection during the handshake: %w", err)}}
	}
	answer, mac := answer[:answerBytes], answer[answerBytes:]
	if err := mine.refusalError(answer); err != nil {
		return m, refusal{err}
	}
	if !hmac.Equal(mac, proof(secret, "accept", first, answer)) {
		return m, ErrSecret
	}
	suite := seal.Suite(answer[0] >> suiteShift)
	if suite.Valid() != mine.suite.Valid() {
		return m, errSecure
	}
	if _, err := conn.Write(proof(secret, "dial", first, answer)); err != nil {
		return m, temporary{err}
	}
	m = handshakeResult{hello: mine, conn: conn}
	if suite.Valid() {
		if m.conn, err = sealConn(conn, key, suite, secret, true, first, answer); err != nil {
			return m, err
		}
	}
	var status [1]byte
	if _, err := io.ReadFull(m.conn, status[:]); err != nil {
		return m, temporary{fmt.Errorf("it closed the connection after this process's proof: %w", err)}
	}
	m.sharing = status[0] == statusSharing
	return m, nil
}

// refusalError returns the error in an answer, or nil. The answer is not authenticated.
func (h *hello) refusalError(answer []byte) error {
	version, generation := binary.LittleEndian.Uint32(answer[1:]), binary.LittleEndian.Uint64(answer[5:])
	switch answer[0] & (1<<suiteShift - 1) {
	case statusVersion:
		return fmt.Errorf("it has protocol version %d, this process %d: run the same build everywhere", version, h.version)
	case statusGeneration:
		err := fmt.Errorf("it is in generation %d, this process in %d", generation, h.generation)
		if generation < h.generation {
			return temporary{err} // it may catch up
		}
		return err
	case statusWorld:
		return errors.New("it has another list of processes")
	case statusUnexpected:
		return temporary{errors.New("it does not expect this process")}
	case statusSecure:
		return errSecure
	}
	return nil
}

// sealConn makes an end's sealed connection. The handshake has authenticated everything
// from which the keys are derived.
func sealConn(conn net.Conn, key seal.Ephemeral, suite seal.Suite, secret []byte, dialled bool, first, answer []byte) (net.Conn, error) {
	theirs := answer
	if !dialled {
		theirs = first
	}
	pair, err := key.Agree(suite, secret, theirs[len(theirs)-nonceBytes:], dialled, "ecrec transport", first, answer)
	if err != nil {
		return nil, err
	}
	return seal.NewConn(conn, pair), nil
}

// acceptHandshake is A's side. It determines which process dials.
func (w *netWorld) acceptHandshake(conn net.Conn, secret []byte, expects func(process int) bool,
	canShare func(process int) bool) (m handshakeResult, err error) {
	first := make([]byte, helloBytes)
	if _, err := io.ReadFull(conn, first); err != nil {
		return m, err
	}
	theirs, ok := decodeHello(first)
	if !ok {
		return m, errors.New("not a handshake of ecrec")
	}
	status, suite := w.checkHello(&theirs, expects)
	key := seal.NewEphemeral()
	answer := binary.LittleEndian.AppendUint32([]byte{status | byte(suite)<<suiteShift}, protocolVersion)
	answer = append(binary.LittleEndian.AppendUint64(answer, w.generation), key.Nonce()...)
	if _, err := conn.Write(append(answer, proof(secret, "accept", first, answer)...)); err != nil {
		return m, err
	}
	if status != statusOK {
		return m, fmt.Errorf("process %d of generation %d was refused with status %d", theirs.from, theirs.generation, status)
	}
	mac := make([]byte, macBytes)
	if _, err := io.ReadFull(conn, mac); err != nil {
		return m, err
	}
	if !hmac.Equal(mac, proof(secret, "dial", first, answer)) {
		return m, ErrSecret
	}
	m = handshakeResult{hello: theirs, conn: conn, sharing: theirs.sharedMemory && canShare(int(theirs.from))}
	if suite.Valid() {
		if m.conn, err = sealConn(conn, key, suite, secret, false, first, answer); err != nil {
			return m, err
		}
	}
	last := byte(statusProved)
	if m.sharing {
		last = statusSharing
	}
	_, err = m.conn.Write([]byte{last})
	return m, err
}

// checkHello returns the status with which to answer a hello, and the suite that both can
// use.
func (w *netWorld) checkHello(theirs *hello, expects func(process int) bool) (status byte, suite seal.Suite) {
	switch {
	case theirs.version != protocolVersion:
		return statusVersion, 0
	case theirs.generation != w.generation:
		if theirs.generation < w.generation {
			w.stats.StaleFrames.Add(1)
		}
		return statusGeneration, 0
	case theirs.world != worldDigest(w.processes) || int(theirs.to) != w.self || int(theirs.from) <= w.self ||
		int(theirs.from) >= len(w.processes):
		return statusWorld, 0
	case !expects(int(theirs.from)):
		return statusUnexpected, 0
	case !w.mustSeal(int(theirs.from)):
		if theirs.suite != 0 {
			return statusSecure, 0
		}
		return statusOK, 0
	case !theirs.suite.Valid():
		return statusSecure, 0
	}
	return statusOK, seal.Common(theirs.suite, seal.Fastest())
}
