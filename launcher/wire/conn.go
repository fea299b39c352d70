package wire

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/seal"
	"github.com/ecrec/ecrec/launcher/control"
)

// maxMessageBytes has room for the largest membership.
const maxMessageBytes = 2 << 20

// sendLimit is how long a peer may keep a message from being sent.
const sendLimit = 10 * time.Second

// clearBit marks the length of a frame that is not sealed.
const clearBit = 1 << 31

// errForged ends a connection whose peer lacks its key, or on which a frame arrived
// that the peer did not send.
var errForged = errors.New("a message that was not sealed with the key of this connection")

// Conn is a connection that carries messages. One goroutine at a time may send, and one
// receive.
type Conn struct {
	conn  net.Conn
	pair  *seal.Pair // nil: there are no keys yet, or the peer is a child
	limit int        // of a received message, in bytes; 0: maxMessageBytes
}

// NewConn carries messages in clear, between a parent and its child.
func NewConn(conn net.Conn) *Conn { return &Conn{conn: conn} }

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// SetReadDeadline bounds later Receive calls.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetReadDeadline(t) }

// Send sends a message. It blocks until the system has taken it, 10 s at most.
func (c *Conn) Send(m control.Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxMessageBytes {
		return fmt.Errorf("a %s message of %d bytes is over the limit of %d", m.Kind, len(body), maxMessageBytes)
	}
	return c.sendFrame(body)
}

func (c *Conn) sendFrame(body []byte) error {
	if c.pair == nil {
		return c.sendClear(body)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, seal.HeadBytes+len(body)+seal.Overhead), uint32(len(body)+seal.Overhead))
	return c.writeAll(c.pair.Out.Seal(frame, body, frame))
}

func (c *Conn) sendClear(body []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, seal.HeadBytes+len(body)), uint32(len(body))|clearBit)
	return c.writeAll(append(frame, body...))
}

func (c *Conn) writeAll(frame []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, err := c.conn.Write(frame)
	return err
}

// refuseInClear sends a refusal to a peer that lacks the key.
func (c *Conn) refuseInClear(why error) {
	body, err := json.Marshal(control.Message{Kind: control.KindRefused, Text: why.Error()})
	if err == nil {
		_ = c.sendClear(body) // if it is not delivered, the peer finds the connection closed
	}
}

// Receive returns the next message.
func (c *Conn) Receive() (m control.Message, err error) {
	m, err = c.receiveUnverified()
	if errors.Is(err, errForged) {
		m = control.Message{}
	}
	return m, err
}

// receiveUnverified is Receive, but returns a message in clear together with errForged. The
// message may explain a refusal and must not be trusted.
func (c *Conn) receiveUnverified() (m control.Message, err error) {
	body, forged := c.receiveFrame()
	if forged != nil && body == nil {
		return m, forged
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return control.Message{}, fmt.Errorf("a message that cannot be read: %w", err)
	}
	return m, forged
}

// receiveFrame returns the body of the next frame. A frame in clear on a sealed connection
// is returned with errForged.
func (c *Conn) receiveFrame() ([]byte, error) {
	var head [seal.HeadBytes]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	clear := n&clearBit != 0
	if limit := cmp.Or(c.limit, maxMessageBytes); n&^clearBit > uint32(limit+seal.Overhead) {
		return nil, fmt.Errorf("a message of %d bytes is over the limit of %d: the peer is not ecrec", n&^clearBit, limit)
	}
	body := make([]byte, n&^clearBit)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	switch {
	case clear && c.pair == nil:
		return body, nil
	case clear:
		return body, errForged
	case c.pair == nil:
		return nil, errForged
	}
	text, err := c.pair.In.Open(body[:0], body, head[:])
	if err != nil {
		return nil, errForged
	}
	return text, nil
}

// sealWith seals all later frames, with keys made of the secret and of both ends' ephemeral
// keys. The end that dialled passes true for dialled. Messages are few, so the suite is the
// fast one on CPUs without special instructions.
func (c *Conn) sealWith(key seal.Ephemeral, secret, theirs []byte, dialled bool) (err error) {
	nonces := [][]byte{key.Nonce(), theirs}
	if !dialled {
		slices.Reverse(nonces)
	}
	c.pair, err = key.Agree(seal.ChaCha20Poly1305, secret, theirs, dialled, "ecrec launcher", nonces...)
	return err
}

// DeriveKey makes a key for a purpose from a secret.
func DeriveKey(secret []byte, purpose string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

// Inherit is the connection that a parent left at a file descriptor.
func Inherit(fd int) (net.Conn, error) {
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "parent")
	defer f.Close()
	return net.FileConn(f)
}
