package collectives

import (
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// messenger sends and receives the messages of one operation at a time, on one
// channel of an endpoint.
type messenger struct {
	env    env.Env
	ep     transport.Endpoint
	base   transport.Tag // the channel
	dev    kernels.Device
	stream kernels.Stream

	// The following belong to the goroutine that runs the current operation.
	err                  error // the first failure
	requests             []transport.Request
	tokenOut             [1]byte // sent by meetPeers
	tokensIn             []byte  // by peer: received by meetPeers
	dstPlaces, srcPlaces []int   // by rank: see partsOf
}

// Tags within a channel. Messages between two ranks keep their order under each tag, and
// all ranks run the same operations, so no operation needs a tag of its own.
const (
	tagData   transport.Tag = iota + 1
	tagResult               // AllReduce's finished chunks
	tagShort                // short messages among all ranks
	tagWatch                // receives that never complete: see ncclComm
)

// chunkBytes is the length of one message: long enough to hide its latency, and short
// enough that it is still in a core's cache when it is added.
const chunkBytes = 128 << 10

// Rank returns this rank's number.
func (m *messenger) Rank() int { return m.ep.Rank() }

// Size returns the number of ranks.
func (m *messenger) Size() int { return m.ep.Size() }

// failWith ends the communicator: see the package doc.
func (m *messenger) failWith(err error) {
	if m.err == nil {
		m.err = err
		m.ep.Abort(err)
	}
}

// sendMessage and recvMessage post a message. An empty one is not sent, because both ends
// know its length.
func (m *messenger) sendMessage(to int, tag transport.Tag, p []byte) transport.Request {
	if len(p) == 0 {
		return nil
	}
	return m.ep.Send(to, m.base|tag, p)
}

func (m *messenger) recvMessage(from int, tag transport.Tag, p []byte) transport.Request {
	if len(p) == 0 {
		return nil
	}
	return m.ep.Recv(from, m.base|tag, p)
}

// addRequest adds a request of the operation, for waitAll.
func (m *messenger) addRequest(r transport.Request) {
	if r != nil {
		m.requests = append(m.requests, r)
	}
}

// waitAll waits for all requests of the operation. One that fails aborts the endpoint, so
// that the others end too.
func (m *messenger) waitAll() {
	for i, r := range m.requests {
		m.waitRequest(r)
		m.requests[i] = nil
	}
	m.requests = m.requests[:0]
}

func (m *messenger) waitRequest(r transport.Request) {
	if r == nil {
		return
	}
	if err := r.Wait(); err != nil {
		m.failWith(err)
	}
}

// host returns b's memory, which the CPU must be able to address.
func host(b kernels.Buffer) []byte {
	p := b.Host()
	if p == nil && b.Bytes() > 0 {
		panic("collectives: the CPU cannot address the buffer")
	}
	return p
}

// exchangeShort sends message to all other ranks and receives theirs into the slices that
// into returns.
func (m *messenger) exchangeShort(message []byte, into func(peer int) []byte) {
	n, rank := m.Size(), m.Rank()
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		m.addRequest(m.recvMessage(from, tagShort, into(from)))
	}
	for k := 1; k < n; k++ {
		m.addRequest(m.sendMessage((rank+k)%n, tagShort, message))
	}
	m.waitAll()
}

// meetPeers is a barrier in one step.
func (m *messenger) meetPeers() {
	m.exchangeShort(m.tokenOut[:1], func(peer int) []byte { return m.tokensIn[peer : peer+1] })
}

// syncStream waits for the stream.
func (m *messenger) syncStream() {
	if err := m.stream.Sync(); err != nil {
		m.failWith(err)
	}
}

// copyOwn copies this rank's own part, unless it is already in place.
func (m *messenger) copyOwn(dst, src kernels.Buffer) {
	if dst.Bytes() == 0 || dst == src {
		return
	}
	m.stream.Copy(dst, src)
	m.syncStream()
}

// waitRequests waits for the requests of a slot, which are indexed by peer.
func (m *messenger) waitRequests(requests []transport.Request) {
	for peer, r := range requests {
		m.waitRequest(r)
		requests[peer] = nil
	}
}

// parts are the parts of a buffer, one for each rank.
type parts struct {
	b             kernels.Buffer
	bytes, places []int // of each part
}

// partsOf returns the parts of b, in rank order, of the lengths in counts. places is memory for
// their places.
func partsOf(b kernels.Buffer, counts, places []int) parts {
	at := 0
	for rank, n := range counts {
		places[rank] = at
		at += n
	}
	return parts{b, counts, places}
}

func (p parts) of(rank int) kernels.Buffer { return p.b.Slice(p.places[rank], p.bytes[rank]) }
