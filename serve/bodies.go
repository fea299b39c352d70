package serve

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// The bounds of the requests with a body, at a time.
const (
	maxRequests = 4096 // all
	maxBodies   = 64   // those that compute, if they are short; and those of over shortBody bytes
	// shortBody is how much of a request is read before it counts as long. A short one takes little memory, whatever it contains.
	shortBody = maxUncounted
)

// bodies holds a token for each request with a body: while it is read, and while its reply is computed. A client that sends requests
// slowly delays no short requests of others, unless it has maxRequests of them.
type bodies struct{ all, short, long tokens }

type tokens chan struct{}

func newBodies() bodies {
	return bodies{make(tokens, maxRequests), make(tokens, maxBodies), make(tokens, maxBodies)}
}

// claim waits for a token. One that is there is taken even if the context has ended.
func (t tokens) claim(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t tokens) giveBack() { <-t }

// heads is the memory of the first bytes of requests.
var heads = sync.Pool{New: func() any { return new([shortBody]byte) }}

// limit returns a handler that calls another one, for a limited number of requests at a time. The others wait.
func (b bodies) limit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := b.serve(h, w, r); err != nil {
			answerError(w, err)
		}
	})
}

func (b bodies) serve(h http.Handler, w http.ResponseWriter, r *http.Request) error {
	if err := b.all.claim(r.Context()); err != nil {
		return err
	}
	defer b.all.giveBack()
	head := heads.Get().(*[shortBody]byte)
	defer heads.Put(head)
	body := &begunBody{rest: r.Body}
	if r.ContentLength <= maxBody { // else its sender need not be asked for it
		body.head, body.err = readUpTo(r.Body, head[:])
	}
	kind := b.long
	if body.err != nil { // it has ended
		kind = b.short
	}
	if err := kind.claim(r.Context()); err != nil {
		return err
	}
	defer kind.giveBack()
	r = r.WithContext(r.Context()) // after the reply, package http looks at the Body of its own request
	r.Body = body
	h.ServeHTTP(w, r)
	return nil
}

// readUpTo reads until there is no room, or an error, which is io.EOF at the end.
func readUpTo(r io.Reader, to []byte) (read []byte, err error) {
	n := 0
	for n < len(to) && err == nil {
		var k int
		k, err = r.Read(to[n:])
		n += k
	}
	return to[:n], err
}

// begunBody is a body of which the first bytes have been read.
type begunBody struct {
	head []byte
	err  error // after head; nil: the rest follows
	rest io.ReadCloser
}

func (b *begunBody) Read(to []byte) (int, error) {
	if len(b.head) > 0 {
		n := copy(to, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.rest.Read(to)
}

func (b *begunBody) Close() error { return b.rest.Close() }
