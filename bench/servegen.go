package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// requestLoad sends single requests over connections that stay open, and times the answers.
type requestLoad struct {
	addr     string
	requests [][]byte // of HTTP/1.1, sent in turn
	conns    int
	lasts    time.Duration
	// rate is the requests per second that are due, over all connections; 0: each connection sends the next request after an answer. An
	// answer is timed from the moment at which its request was due.
	rate float64
}

// loadResult is the result of a load.
type loadResult struct {
	rate  float64   // answers per second
	times []float64 // of the answers, in ms
	cpu   float64   // us of this process for each answer, those of the load included
}

// run sends the load.
func (l *requestLoad) run() (loadResult, error) {
	results, errs := make([]loadResult, l.conns), make([]error, l.conns)
	began, used := time.Now(), cpuTime()
	together(l.conns, func(i int) { errs[i] = l.runConn(i, began, &results[i]) })
	var all loadResult
	for i := range results {
		if errs[i] != nil {
			return all, errs[i]
		}
		all.times = append(all.times, results[i].times...)
	}
	all.cpu = (cpuTime() - used).Seconds() * 1e6 / max(1, float64(len(all.times)))
	all.rate = float64(len(all.times)) / time.Since(began).Seconds()
	return all, nil
}

// runConn sends the part of a connection.
func (l *requestLoad) runConn(i int, began time.Time, to *loadResult) (err error) {
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	in := bufio.NewReaderSize(c, 16<<10)
	every := time.Duration(0)
	if l.rate > 0 {
		every = time.Duration(float64(l.conns) / l.rate * float64(time.Second))
	}
	to.times = make([]float64, 0, 1<<14)
	for n := 0; ; n++ {
		due := time.Now()
		if every > 0 {
			due = began.Add(every*time.Duration(i)/time.Duration(l.conns) + every*time.Duration(n))
			time.Sleep(time.Until(due))
		}
		if due.Sub(began) >= l.lasts {
			return nil
		}
		if _, err = c.Write(l.requests[(i*7919+n)%len(l.requests)]); err == nil {
			err = readAnswer(in)
		}
		if err != nil {
			return err
		}
		to.times = append(to.times, ms(time.Since(due)))
	}
}

// ms is a time in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

var lengthHeader = []byte("Content-Length: ")

// readAnswer reads an answer of status 200.
func readAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		rest, _ := in.Peek(in.Buffered())
		return fmt.Errorf("the server answers %.40q %.300q", line, rest)
	}
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if text, ok := bytes.CutPrefix(line, lengthHeader); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("an answer without a length")
	}
	_, err = in.Discard(length)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
