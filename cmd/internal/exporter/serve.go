package exporter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/ecrec/ecrec/internal/atomicfile"
)

const (
	writeEvery  = 5 * time.Second // between writes of the textfile
	listenEvery = 5 * time.Second // between attempts to listen on a port in use
	closeLimit  = time.Second     // for scrapes in progress
	idleLimit   = 10 * time.Second
	// recent is how long after a scrape another one is expected.
	recent = time.Minute
	// lookEvery is how often AwaitScrape looks for a scrape.
	lookEvery = 20 * time.Millisecond
	// maxConnections bounds the file descriptors used by scrapers.
	maxConnections = 32
)

// Addr returns the address on which process number local of a node listens: its port is local above
// the port of listen, unless that is 0 for any free port.
func Addr(listen string, local int) (string, error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", err
	}
	if port != 0 {
		port += uint64(local)
	}
	if port > 65535 {
		return "", fmt.Errorf("process %d of the node would listen on port %d, above 65535; use a lower port", local, port)
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10)), nil
}

// Listen serves the figures on an address from now on.
func (e *Exporter) Listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	all := prometheus.Gatherers{prometheus.GathererFunc(e.gatherOwn), e.runtime}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e.noteScrapes(promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: idleLimit, MaxHeaderBytes: 16 << 10, ConnState: limit()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	e.server, e.serves = server, l.Addr().String()
	e.loops.Go(func() { _ = server.Serve(l) }) // until Close; an error affects one scrape
	return nil
}

// noteScrapes notes the scrapes that a handler serves.
func (e *Exporter) noteScrapes(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ends := e.ends.Load()
		h.ServeHTTP(w, r)
		e.scraped.Store(time.Now().UnixNano())
		e.read.Store(ends)
	})
}

// AwaitScrape waits after Ended until a scrape has read the figures of the end, until a limit, or until stop returns true. It waits only if the
// figures of the job were scraped a short time ago: else nothing reads them. It calls notice if that takes longer than a second.
func (e *Exporter) AwaitScrape(limit time.Duration, stop func() bool, notice func()) {
	if e == nil || !e.leads.Load() || time.Since(time.Unix(0, e.scraped.Load())) > recent {
		return
	}
	for began := time.Now(); e.read.Load() < e.ends.Load() && time.Since(began) < limit && !stop(); {
		if notice != nil && time.Since(began) > time.Second {
			notice()
			notice = nil
		}
		time.Sleep(lookEvery)
	}
}

// limit returns a function that closes connections above maxConnections.
func limit() func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, to http.ConnState) {
		switch to {
		case http.StateNew:
			if open.Add(1) > maxConnections {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

// Serves returns the address on which Listen serves the figures, empty if there is none.
func (e *Exporter) Serves() string {
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.serves
}

// KeepTrying listens on an address as soon as it is free.
func (e *Exporter) KeepTrying(addr string) {
	e.runEvery(listenEvery, func() (again bool) {
		return e.Listen(addr) != nil
	})
}

// WriteTo writes the figures to a file periodically. Its name must end in .prom.
func (e *Exporter) WriteTo(path string) {
	write := func() bool {
		_ = e.writeFile(path) // a later write may succeed; training does not depend on it
		return true
	}
	e.runEvery(writeEvery, write)
	e.atEnd = func() { write() }
}

// writeFile writes the figures once.
func (e *Exporter) writeFile(path string) error {
	all, err := e.gatherOwn()
	if err != nil {
		return err
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	for _, m := range all {
		if _, err := expfmt.MetricFamilyToText(f, m); err != nil {
			return err
		}
	}
	return f.Commit()
}

// runEvery calls do periodically in the background, until it returns false or Close is called.
func (e *Exporter) runEvery(every time.Duration, do func() (again bool)) {
	e.loops.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for do() {
			select {
			case <-e.closed:
				return
			case <-tick.C:
			}
		}
	})
}

// Close ends the server and the background calls. The file stays, with the last figures.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	close(e.closed)
	server := e.server
	e.done = true
	e.mu.Unlock()
	if server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
	e.loops.Wait()
	if e.atEnd != nil {
		e.atEnd()
	}
}
