package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/heartbeat"
	"github.com/ecrec/ecrec/internal/printable"
	"github.com/ecrec/ecrec/internal/seal"
	"github.com/ecrec/ecrec/launcher/control"
)

// The errors of a handshake.
var (
	// ErrProtocol is a peer whose reply is not that of a process of this job.
	ErrProtocol = errors.New("the peer does not follow ecrec's protocol")
	// ErrBroken is a connection that ended before the reply.
	ErrBroken = errors.New("the connection ended")
	// ErrSilent is a connection without a reply in time.
	ErrSilent = errors.New("it accepts connections and does not answer")
)

// Refusal is the reason why a peer refused this process.
type Refusal struct {
	Text     string
	Verified bool // the sender has proved that it has the job's secret
}

func (r Refusal) Error() string {
	if !r.Verified {
		return r.Text + " (not verified: the sender did not prove that it knows this job's secret)"
	}
	return r.Text
}

// maxRefusal bounds the text of a refusal that is printed, in bytes.
const maxRefusal = 200

// Dial connects to an address, proves to the listener that this process belongs to the job,
// and sends m. It returns the reply too. limit bounds the dialling, and then the handshake.
func Dial(address string, key []byte, m control.Message, limit time.Duration) (*Conn, control.Message, error) {
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return nil, m, err
	}
	c, answer, err := Introduce(conn, key, m, limit)
	if err != nil {
		conn.Close()
	}
	return c, answer, err
}

// Introduce is Dial on an open connection. It is a Refusal if the listener refuses this
// process, and ErrBroken or ErrSilent if the connection breaks or no reply arrives in time:
// the listener may be slow, or flooded.
func Introduce(conn net.Conn, key []byte, m control.Message, limit time.Duration) (*Conn, control.Message, error) {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, m, ErrBroken
	}
	if err := CheckUser(conn); err != nil {
		return nil, m, err
	}
	c := &Conn{conn: conn}
	first, err := c.Receive()
	switch {
	case err != nil && isBroken(err):
		return nil, m, brokenOrSilent(err)
	case err != nil || first.Kind != control.KindNonce:
		return nil, m, ErrProtocol
	}
	mine := seal.NewEphemeral()
	if err := c.Send(control.Message{Kind: control.KindNonce, Nonce: mine.Nonce()}); err != nil {
		return nil, m, brokenOrSilent(err)
	}
	if err := c.sealWith(mine, key, first.Nonce, true); err != nil {
		return nil, m, ErrProtocol
	}
	if err := c.Send(m); err != nil {
		return nil, m, brokenOrSilent(err)
	}
	answer, err := c.receiveUnverified()
	switch {
	case (err == nil || errors.Is(err, errForged)) && answer.Kind == control.KindRefused:
		return nil, answer, Refusal{printable.Clip(printable.JoinLines(answer.Text), maxRefusal), err == nil}
	case err != nil && isBroken(err):
		return nil, answer, brokenOrSilent(err)
	case err != nil || answer.Kind != control.KindWelcome:
		return nil, answer, ErrProtocol
	}
	if err := c.Send(control.Message{Kind: control.KindAck}); err != nil {
		return nil, answer, brokenOrSilent(err)
	}
	keepAlive(conn)
	return c, answer, conn.SetDeadline(time.Time{})
}

// isBroken reports whether a connection ended, or a reply was late.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrDeadlineExceeded)
}

// brokenOrSilent is ErrSilent for a deadline, and ErrBroken for other errors of the system.
func brokenOrSilent(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSilent
	}
	return ErrBroken
}

// keepAlive has the system end the connection to a machine that vanished, after
// heartbeat.Patience. An elastic job detects it sooner, by its heartbeats.
func keepAlive(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		const probes = 5
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: heartbeat.Patience / 2,
			Interval: heartbeat.Patience / 2 / probes, Count: probes})
	}
}

// Responds reports whether a process of some job listens at an address: whether it begins a
// handshake.
func Responds(network, address string) bool {
	const limit = time.Second
	conn, err := net.DialTimeout(network, address, limit)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit)) // a connection that cannot have one is broken
	first, err := NewConn(conn).Receive()
	return err == nil && first.Kind == control.KindNonce
}
