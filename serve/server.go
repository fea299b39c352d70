package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/follow"
)

// Options describe a Server.
type Options struct {
	// Addr is the address to listen on, HOST:PORT.
	Addr string
	// MaxStaleness is the age of a marker above which the server is not ready. 0: none is too old.
	MaxStaleness time.Duration
	// Lanes is how many requests are scored at once. 0: one for each core.
	Lanes int
}

// Limits of a Server.
const (
	maxBody     = 16 << 20 // bytes of a request
	maxRows     = 1 << 14  // of a request
	maxHeader   = 16 << 10 // bytes
	headTimeout = 10 * time.Second
	bodyTimeout = 30 * time.Second
	sendTimeout = time.Minute
	idleTimeout = 2 * time.Minute
	closeWithin = 10 * time.Second // for requests that were begun
)

// Server replies to requests with the model that a follower publishes.
type Server struct {
	o       Options
	model   served
	metrics *metrics
	http    *http.Server
	listen  net.Listener
	failure atomic.Pointer[error] // of the follower
	running sync.WaitGroup
	bodies  bodies
}

// New returns a Server that listens. It has no model yet, and is not ready.
func New(o Options) (*Server, error) {
	s := &Server{o: o, bodies: newBodies()}
	s.model.lanes = cmp.Or(o.Lanes, runtime.GOMAXPROCS(0))
	s.metrics = newMetrics(s)
	var err error
	if s.listen, err = net.Listen("tcp", o.Addr); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	s.http = NewHTTP(s.handler())
	s.running.Go(func() {
		if err := s.http.Serve(s.listen); !errors.Is(err, http.ErrServerClosed) {
			s.Fail(fmt.Errorf("the server on %s: %w", s.Addr(), err))
		}
	})
	return s, nil
}

// NewHTTP returns the HTTP server of a Server, for a handler: HTTP/1.1, and HTTP/2 without TLS for gRPC.
func NewHTTP(h http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: h, Protocols: &protocols, ReadHeaderTimeout: headTimeout, ReadTimeout: bodyTimeout, WriteTimeout: sendTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ConnState: limitConnections(maxConnections)}
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.listen.Addr().String() }

// Publish shows requests a model. It is an Options.Publish of a follower.
func (s *Server) Publish(v *follow.View) error {
	if err := s.model.publish(v); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Fail notes that the follower ended. The server continues with its model.
func (s *Server) Fail(err error) { s.failure.CompareAndSwap(nil, &err) }

// Failed is the first error of Fail, nil if there was none.
func (s *Server) Failed() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready returns nil if the server has a model that is not too old, and else the reason.
func (s *Server) Ready() error {
	v := s.model.current.Load()
	if v == nil {
		return errNoModel
	}
	if age := v.staleness(time.Now()); s.o.MaxStaleness > 0 && age > s.o.MaxStaleness {
		return fmt.Errorf("the marker of step %d is %v old, over %v", v.Step, age.Round(time.Millisecond), s.o.MaxStaleness)
	}
	return nil
}

// Close finishes the requests that were begun, and frees the model. No Publish may be running.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("serve: requests did not end within %v", closeWithin), s.http.Close())
	}
	s.running.Wait()
	s.model.closeAll()
	return err
}
