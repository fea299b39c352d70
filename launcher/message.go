package launcher

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// kind says what a message asks or tells.
type kind string

// The messages, with who sends them to whom.
const (
	kindNonce   kind = "nonce"   // both ends of a rendezvous, first: Nonce
	kindJoin    kind = "join"    // supervisor to host, or to a keeper of a job that runs: Processes, Job, Keeper
	kindVisit   kind = "visit"   // supervisor to voter: Process, its number, to hear the job should that lead
	kindRaft    kind = "raft"    // voter to voter: what follows is the consensus library's
	kindWelcome kind = "welcome" // to all three: Secret, where the kernel keeps strangers out; to join: the host is Process
	// or, of a job that runs, Voters and the comer's number, Process: -1 if it is another who leads
	kindRefused kind = "refused" // to all three: Text says why

	kindLead   kind = "lead"   // voter to supervisor, once a heartbeat: it leads, for Term
	kindFollow kind = "follow" // voter to supervisor: it leads no more
	kindVoters kind = "voters" // job to supervisor: Voters

	kindForm      kind = "form"      // job to supervisor: have a worker of Incarnation of Process listen for Generation
	kindListen    kind = "listen"    // supervisor to worker, as Process: on Host, for Generation; Heartbeat
	kindListening kind = "listening" // worker to supervisor to job: at Addr, for Generation
	kindWorld     kind = "world"     // job to supervisor to worker: World
	kindDone      kind = "done"      // worker to supervisor to job: the work of Generation is done
	kindLeave     kind = "leave"     // job to supervisor to worker: all are done
	kindReport    kind = "report"    // worker to supervisor: how its work ended
	kindEnded     kind = "ended"     // supervisor to job: Outcome of its worker of Incarnation

	kindBeat      kind = "beat"      // worker to supervisor, supervisor to the voter that leads: it lives
	kindLost      kind = "lost"      // worker to supervisor to job: in Generation it does not reach Process
	kindCommitted kind = "committed" // worker to supervisor to job: in Generation there was a commit; Whole: with all that was lost

	kindFire  kind = "fire"  // worker to supervisor to job, of Incarnation: may Fault happen?
	kindFired kind = "fired" // job to supervisor, of Incarnation, and to the worker: Fault may happen if Granted

	kindStop   kind = "stop"   // finish the step and stop, for Signal: to the job, and on to the workers
	kindKill   kind = "kill"   // end at once, for Signal: the same way
	kindAbort  kind = "abort"  // job to supervisor to worker: another process failed, or what Text says, which Process writes down
	kindEnd    kind = "end"    // job to supervisor: the job is over with Code
	kindSecret kind = "secret" // launcher to supervisor: the job's Secret
)

// message is what processes of a job tell each other. Which fields a kind has is
// said where the kinds are.
type message struct {
	Kind        kind     `json:"kind"`
	Nonce       []byte   `json:"nonce,omitempty"`
	Secret      []byte   `json:"secret,omitempty"`
	Process     int      `json:"process,omitempty"`
	Processes   int      `json:"processes,omitempty"`
	Job         string   `json:"job,omitempty"` // what all processes must have in common
	Host        string   `json:"host,omitempty"`
	Keeper      *keeper  `json:"keeper,omitempty"`
	Voters      []keeper `json:"voters,omitempty"`
	Term        uint64   `json:"term,omitempty"`
	Addr        string   `json:"addr,omitempty"`
	Generation  uint64   `json:"generation,omitempty"`
	Incarnation int      `json:"incarnation,omitempty"`
	World       *members `json:"world,omitempty"`
	Report      *Report  `json:"report,omitempty"`
	Outcome     *outcome `json:"outcome,omitempty"`
	Fault       *Fault   `json:"fault,omitempty"`
	Granted     bool     `json:"granted,omitempty"`
	Whole       bool     `json:"whole,omitempty"`
	Signal      int      `json:"signal,omitempty"`
	Code        int      `json:"code,omitempty"`
	Text        string   `json:"text,omitempty"`
	// Heartbeat is how often the worker shows that it lives; 0: it need not.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
}

// members is a world as it travels.
type members struct {
	Generation uint64    `json:"generation"`
	Processes  []Process `json:"processes"`
	Fired      []int     `json:"fired,omitempty"`  // the numbers of faults that have happened
	Secret     []byte    `json:"secret,omitempty"` // of the transport, from a supervisor to its worker
	// Lost is when that happened for which it is there, in nanoseconds of Unix time: to a
	// fault's beginning, else to when the job heard of it.
	Lost    int64 `json:"lost,omitempty"`
	Trained bool  `json:"trained,omitempty"` // there was a commit before
}

// maxMessageBytes has room for the largest world.
const maxMessageBytes = 2 << 20

// sendLimit is how long a peer may keep a message from leaving.
const sendLimit = 10 * time.Second

// errForged ends a wire whose peer does not know its key.
var errForged = errors.New("a message that its sender's key does not sign")

// wire carries messages over a connection: length (4 bytes, big-endian), HMAC
// (zeros before there is a key), JSON. One goroutine sends, one receives.
type wire struct {
	conn     net.Conn
	key      []byte
	us, them byte // who signs, so that no message can be sent back
	out, in  uint64
}

func (w *wire) sign(who byte, number uint64, body []byte) []byte {
	mac := make([]byte, sha256.Size)
	if w.key == nil {
		return mac
	}
	h := hmac.New(sha256.New, w.key)
	var head [9]byte
	head[0] = who
	binary.BigEndian.PutUint64(head[1:], number)
	h.Write(head[:])
	h.Write(body)
	return h.Sum(mac[:0])
}

func (w *wire) send(m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxMessageBytes {
		return fmt.Errorf("a %s message of %d bytes is over the limit of %d", m.Kind, len(body), maxMessageBytes)
	}
	return w.sendBytes(body)
}

func (w *wire) sendBytes(body []byte) error {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+sha256.Size+len(body)), uint32(len(body)))
	frame = append(append(frame, w.sign(w.us, w.out, body)...), body...)
	w.out++
	if err := w.conn.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, err := w.conn.Write(frame)
	return err
}

// receive returns the next message. A message of another key is errForged; it is
// returned for what it may explain, and must not be believed.
func (w *wire) receive() (m message, err error) {
	body, forged := w.receiveBytes()
	if forged != nil && !errors.Is(forged, errForged) {
		return m, forged
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return message{}, fmt.Errorf("a message that cannot be read: %w", err)
	}
	return m, forged
}

// receiveBytes is receive for what is no message.
func (w *wire) receiveBytes() ([]byte, error) {
	var head [4 + sha256.Size]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessageBytes {
		return nil, fmt.Errorf("a message of %d bytes is over the limit of %d: the peer is not ecrec", n, maxMessageBytes)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	if !hmac.Equal(head[4:], w.sign(w.them, w.in, body)) {
		return body, errForged
	}
	w.in++
	return body, nil
}

// rekey signs messages from now on with a key made of a secret and of what both
// ends drew for this connection.
func (w *wire) rekey(secret, nonce0, nonce []byte) {
	w.key = derive(secret, "ecrec rendezvous", nonce0, nonce)
	w.out, w.in = 0, 0
}

// derive makes a key for a purpose.
func derive(secret []byte, purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(purpose))
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	return h.Sum(nil)
}

// oneLine makes a text fit for a message on one line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
