package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/serve/servepb"
)

// TestLargeInMemory: a request that would take much more memory than its bytes is refused before it does.
func TestLargeInMemory(t *testing.T) {
	s := newServer(t, Options{})
	empty := bytes.Repeat([]byte{0x0a, 0}, maxBody/2-8) // rows
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	_, err := w.Write(empty)
	must(t, err)
	must(t, w.Close())
	row := binary.AppendUvarint([]byte{0x0a}, uint64(len(empty)-8)) // of empty values
	row = append(row, bytes.Repeat([]byte{0x12, 0}, (len(empty)-8)/2)...)
	packed := make([]byte, maxBody-64)
	for _, field := range []byte{0x12, 0x22, 0x12, 0x0a} { // integers in a list, a value, a row
		packed = append(binary.AppendUvarint([]byte{field}, uint64(len(packed))), packed...)
	}
	words := []byte("{\"rows\":[" + strings.Repeat("{},", maxBody/3-8) + "{}]}")
	const predict, rows = servepb.ServingPredictProcedure, servepb.ServingRowsProcedure
	for _, x := range []struct {
		name, procedure, form, coding string
		body                          []byte
		want                          string
	}{
		{"gzip", predict, "proto", "gzip", zip.Bytes(), "unimplemented"},
		{"rows", predict, "proto", "", empty, "rows in one request"},
		{"values", predict, "proto", "", row, "values in one request"},
		{"packed integers", predict, "proto", "", packed, "values in one request"},
		{"JSON", predict, "json", "", words, "values in one request"},
		{"ids", rows, "proto", "", append(binary.AppendUvarint([]byte{0x12}, 8<<20), make([]byte, 8<<20)...), "rows in one request"},
		{"single ids", rows, "proto", "", bytes.Repeat([]byte{0x10, 1}, 4<<20), "rows in one request"},
	} {
		t.Run(x.name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodPost, "http://"+s.Addr()+x.procedure, bytes.NewReader(x.body))
			must(t, err)
			request.Header.Set("Content-Type", "application/"+x.form)
			if x.coding != "" {
				request.Header.Set("Content-Encoding", x.coding)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			reply, err := client.Do(request)
			must(t, err)
			defer reply.Body.Close()
			text, err := io.ReadAll(reply.Body)
			must(t, err)
			runtime.ReadMemStats(&after)
			if !strings.Contains(string(text), x.want) || reply.StatusCode == http.StatusOK {
				t.Errorf("%s: %.200s", reply.Status, text)
			}
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 100 {
				t.Errorf("it took %d MiB", mib)
			}
		})
	}
}

// TestManyIDs: a batch with many ids ends before it has all rows, and a row with too many is refused.
func TestManyIDs(t *testing.T) {
	form := &rowForm{way: rowsDirect, schema: data.Schema{Dense: 1, Tables: []int64{9}}, dense: 1, bag: []bool{false, true}, names: []string{"dense", "ids"}}
	rows, err := form.newReader(100)
	must(t, err)
	row := func(ids int) string { return `{"dense":[1],"ids":[[` + strings.Repeat("1,", ids-1) + `1]]}` }
	r := &requestReader{rowReader: rows}
	must(t, r.beginRequest([]byte(`{"rows":[`+strings.Join([]string{row(fullBatch - 1), row(1), row(maxRowIDs), row(1)}, ",")+"]}")))
	sizes, total := []int(nil), 0
	for more := true; more; {
		var n int
		n, more, err = r.readBatch(total)
		must(t, err)
		total, sizes = total+n, append(sizes, n)
	}
	if !slices.Equal(sizes, []int{2, 1, 1}) {
		t.Errorf("batches of %v rows", sizes)
	}
	must(t, r.beginRequest([]byte(`{"rows":[`+row(maxRowIDs+1)+"]}")))
	if _, _, err := r.readBatch(0); err == nil || !strings.Contains(err.Error(), "65537 ids") {
		t.Errorf("a row with too many ids: %v", err)
	}
}

// TestTextFormat: messages of a topic without named columns are rows of Criteo's text.
func TestTextFormat(t *testing.T) {
	for text, want := range map[string]string{"": data.FormatCriteoTSV, "[data.csv]\ncategorical = [\"user\"]\n": data.FormatCSV} {
		cfg, err := config.Parse([]byte("[data]\nformat = \"kafka\"\n" + text))
		must(t, err)
		if got := textFormat(cfg); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestManyValues: a request of the largest number of rows, with columns of the usual number, is read.
func TestManyValues(t *testing.T) {
	in := &servepb.PredictRequest{}
	for range maxRows {
		row := &servepb.Row{Columns: map[string]*servepb.Value{}}
		for i := range 39 {
			row.Columns[fmt.Sprint(i)] = &servepb.Value{Kind: &servepb.Value_Integer{Integer: 1}}
		}
		in.Rows = append(in.Rows, row)
	}
	b, err := proto.Marshal(in)
	must(t, err)
	if len(b) > maxBody {
		t.Fatalf("%d bytes", len(b))
	}
	must(t, checkFields(b, shapes["PredictRequest"]))
}

// TestShapes: the numbers in the shapes are those of the messages.
func TestShapes(t *testing.T) {
	list := &servepb.Value{Kind: &servepb.Value_List{List: &servepb.List{Texts: []string{"a", "b"}}}}
	b, err := proto.Marshal(&servepb.PredictRequest{Rows: []*servepb.Row{
		{Columns: map[string]*servepb.Value{"x": list}}, {Dense: []*servepb.Value{{}}, Ids: []*servepb.Value{list}}}})
	must(t, err)
	if n := shapes["PredictRequest"].countValues(b); n != 2+5+5 { // rows; an entry, a value and a list of two; two values and a list of two
		t.Errorf("%d values", n)
	}
}

// TestManyConnections: connections above the limit are closed, also after many of gRPC that have ended.
func TestManyConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := newServer(t, Options{})
	server := NewHTTP(s.handler())
	server.ConnState = limitConnections(3)
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	defer func() { server.Close(); <-ended }()
	for range 5 {
		var h2 http.Protocols
		h2.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: &h2}
		c := servepb.NewServingClient(&http.Client{Transport: transport}, "http://"+l.Addr().String(), connect.WithGRPC())
		for begin := time.Now(); ; time.Sleep(time.Millisecond) { // the server may not know yet that the connection before has ended
			_, err = c.Model(context.Background(), connect.NewRequest(&servepb.ModelRequest{}))
			if err != nil && strings.Contains(err.Error(), errNoModel.text) || time.Since(begin) > 10*time.Second {
				break
			}
		}
		transport.CloseIdleConnections()
		if !strings.Contains(fmt.Sprint(err), errNoModel.text) {
			t.Fatal(err)
		}
	}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	closed := 0
	for range 6 {
		c, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		open = append(open, c)
	}
	for _, c := range open {
		must(t, c.SetReadDeadline(time.Now().Add(2*time.Second)))
		if _, err := c.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
			closed++
		}
	}
	if closed < 3 {
		t.Errorf("%d of 6 connections are closed", closed)
	}
}

// TestBodiesWait: a request waits while as many as the limit are read, and ends with its context.
func TestBodiesWait(t *testing.T) {
	s := newServer(t, Options{})
	for range maxBodies {
		must(t, s.bodies.short.claim(context.Background()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	waits := newClient(t, s, connect.WithGRPC())
	done := make(chan error, 1)
	go func() {
		_, err := waits.Model(ctx, connect.NewRequest(&servepb.ModelRequest{}))
		done <- err
	}()
	reply, err := http.Get("http://" + s.Addr() + "/healthz") // is not limited
	must(t, err)
	reply.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	select {
	case err := <-done:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	cancel()
	if err := <-done; connect.CodeOf(err) != connect.CodeCanceled {
		t.Error(err)
	}
	for range maxBodies {
		s.bodies.short.giveBack()
	}
	if _, err := waits.Model(context.Background(), connect.NewRequest(&servepb.ModelRequest{})); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Error(err)
	}
}

// TestSlowClients: clients that send their requests slowly, also long ones, delay no short request.
func TestSlowClients(t *testing.T) {
	s := newServer(t, Options{})
	for i := range 2 * maxBodies {
		c, err := net.Dial("tcp", s.Addr())
		must(t, err)
		defer c.Close()
		sent := []int{1, shortBody + 1}[i%2]
		_, err = fmt.Fprintf(c, "POST /v1/predict HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s", 2*shortBody, strings.Repeat(" ", sent))
		must(t, err)
	}
	for begin := time.Now(); len(s.bodies.long) < maxBodies || len(s.bodies.all) < 2*maxBodies; time.Sleep(time.Millisecond) {
		if time.Since(begin) > bodyTimeout/2 {
			t.Fatalf("%d requests are read, %d of them long", len(s.bodies.all), len(s.bodies.long))
		}
	}
	begin := time.Now()
	reply, err := http.Post("http://"+s.Addr()+"/v1/predict", "application/json", strings.NewReader(`{"rows":[]}`))
	must(t, err)
	reply.Body.Close()
	if took := time.Since(begin); reply.StatusCode != http.StatusServiceUnavailable || took > bodyTimeout/2 {
		t.Errorf("%s after %v", reply.Status, took)
	}
}

// TestBegunBody: a body of which the first bytes were read has all its bytes, and its error.
func TestBegunBody(t *testing.T) {
	for _, n := range []int{0, 1, 6, 7, 8, 100} {
		want := strings.Repeat("x", n)
		b := &begunBody{rest: io.NopCloser(strings.NewReader(want))}
		b.head, b.err = readUpTo(b.rest, make([]byte, 7))
		if ended := b.err == io.EOF; ended != (n < 7) {
			t.Errorf("%d bytes: %v", n, b.err)
		}
		got, err := io.ReadAll(iotest.OneByteReader(b))
		must(t, err)
		must(t, b.Close())
		if string(got) != want {
			t.Errorf("%d bytes of %d", len(got), n)
		}
	}
	broken := &begunBody{}
	broken.head, broken.err = readUpTo(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("xyz"))), make([]byte, 7))
	if got, err := io.ReadAll(broken); string(got) != "x" || err != iotest.ErrTimeout {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRefusedForms: requests that are no messages are counted.
func TestRefusedForms(t *testing.T) {
	s := newServer(t, Options{})
	for procedure, method := range map[string]string{servepb.ServingPredictProcedure: methodPredict, servepb.ServingRowsProcedure: methodRows,
		servepb.ServingModelProcedure: methodModel} {
		for _, form := range []string{"json", "proto"} {
			reply, err := http.Post("http://"+s.Addr()+procedure, "application/"+form, strings.NewReader("\x0f{"))
			must(t, err)
			reply.Body.Close()
			if reply.StatusCode != http.StatusBadRequest {
				t.Errorf("%s, %s: %s", method, form, reply.Status)
			}
		}
	}
	_, text := call(t, s, "GET", "/metrics", "")
	for _, method := range []string{methodPredict, methodRows, methodModel} {
		if want := fmt.Sprintf(`ecrec_serve_requests_total{code="400",method="%s"} 2`, method); !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// TestUnreadBody: what is left of a body that was refused is not taken for the next requests.
func TestUnreadBody(t *testing.T) {
	s := newServer(t, Options{})
	c, err := net.Dial("tcp", s.Addr())
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(bodyTimeout)))
	body := strings.Repeat("GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n", 1<<20/40)
	go func() {
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"+
			"Content-Length: %d\r\n\r\n%s", servepb.ServingPredictProcedure, len(body), body) // the server may close the connection before its end
	}()
	text, _ := io.ReadAll(c) // or reset it
	if n := bytes.Count(text, []byte("HTTP/1.1 ")); n != 1 {
		t.Errorf("%d replies to one request: %.300s", n, text)
	}
}
