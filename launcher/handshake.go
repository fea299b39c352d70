package launcher

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errStranger is a peer that is none of this job's.
var errStranger = errors.New("the peer does not speak ecrec's protocol")

// errBroken is a peer that is gone before it has answered.
var errBroken = errors.New("the connection ended")

// refusal is why a peer that knows the secret is sent away.
type refusal string

func (r refusal) Error() string { return string(r) }

// guest is who has come: what it said first, and the connection.
type guest struct {
	message
	welcome message
	link    *wire
	at      string // our IP address, as it came to it
}

// reception lets those in who prove that they belong to the job.
type reception struct {
	listener net.Listener
	key      []byte
	limits   limits
	check    func(message) (welcome message, err error) // whether a peer that knows the key may come in
	forget   func(message)                              // it has come in, and is gone before it knows

	refusing sync.Mutex
	refused  string // the last refusal
}

// admit serves those who come, until the listener is closed, and hands guests on.
func (r *reception) admit(come func(guest)) {
	room := make(chan struct{}, maxHandshakes)
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			g, err := r.greet(conn)
			if err != nil {
				r.refusing.Lock()
				r.refused = fmt.Sprintf("%s: %v", conn.RemoteAddr(), err)
				r.refusing.Unlock()
				conn.Close()
				return
			}
			come(g)
		}()
	}
}

// lastRefusal says whom admit sent away, "" if nobody.
func (r *reception) lastRefusal() string {
	r.refusing.Lock()
	defer r.refusing.Unlock()
	return r.refused
}

// greet lets a peer prove that it belongs to the job. Nothing of what it says is
// used before.
func (r *reception) greet(conn net.Conn) (g guest, err error) {
	if err := conn.SetDeadline(time.Now().Add(r.limits.handshake)); err != nil {
		return g, err
	}
	if err := checkUser(conn); err != nil {
		return g, err
	}
	w := &wire{conn: conn, us: 0, them: 1}
	nonce := draw(nonceBytes)
	if err := w.send(message{Kind: kindNonce, Nonce: nonce}); err != nil {
		return g, err
	}
	m, err := w.receive()
	if err != nil {
		return g, err
	}
	if m.Kind != kindNonce || len(m.Nonce) != nonceBytes {
		return g, errStranger
	}
	w.rekey(r.key, nonce, m.Nonce)
	var welcome message
	if m, err = w.receive(); err == nil {
		welcome, err = r.check(m)
	} else if errors.Is(err, errForged) {
		err = errors.New("it does not know this job's secret")
	}
	if err != nil {
		_ = w.send(message{Kind: kindRefused, Text: err.Error()}) // it will be told, or finds the connection closed
		return g, err
	}
	if err := w.send(welcome); err != nil {
		r.forget(m)
		return g, err
	}
	keepAlive(conn)
	return guest{m, welcome, w, ipOf(conn.LocalAddr())}, conn.SetDeadline(time.Time{})
}

// present proves to whoever listens that this process belongs to the job, sees the same
// proof, and says m. It returns the answer; who is sent away gets a refusal.
func present(conn net.Conn, key []byte, m message, lim limits) (*wire, message, error) {
	if err := conn.SetDeadline(time.Now().Add(lim.handshake)); err != nil {
		return nil, m, err
	}
	if err := checkUser(conn); err != nil {
		return nil, m, err
	}
	w := &wire{conn: conn, us: 1, them: 0}
	first, err := w.receive()
	if err != nil || first.Kind != kindNonce || len(first.Nonce) != nonceBytes {
		return nil, m, errStranger
	}
	nonce := draw(nonceBytes)
	if err := w.send(message{Kind: kindNonce, Nonce: nonce}); err != nil {
		return nil, m, err
	}
	w.rekey(key, first.Nonce, nonce)
	if err := w.send(m); err != nil {
		return nil, m, err
	}
	m, err = w.receive()
	switch {
	case (err == nil || errors.Is(err, errForged)) && m.Kind == kindRefused:
		return nil, m, refusal(oneLine(m.Text))
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return nil, m, errBroken
	case err != nil || m.Kind != kindWelcome:
		return nil, m, errStranger
	}
	keepAlive(conn)
	return w, m, conn.SetDeadline(time.Time{})
}

// keepAlive has the system notice a machine that is gone without a word. Its
// workers are noticed sooner, by transport.
func keepAlive(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5})
	}
}

// checkUser makes sure that the peer of a local socket is of the same user.
func checkUser(conn net.Conn) error {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if ctlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctlErr != nil || err != nil {
		return errors.Join(ctlErr, err)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("the peer is a process of user %d", peer.Uid)
	}
	return nil
}

// ipOf is the IP address of a socket's end; loopback's for a local socket.
func ipOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP != nil {
		return tcp.IP.String()
	}
	return "127.0.0.1"
}
