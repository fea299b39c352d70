package serve

import (
	"bytes"
	"net"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The bounds of the memory of requests: connections, and the values in a body. Two bytes of a body can be a message that takes a hundred
// bytes of memory.

const (
	maxConnections = 512
	// maxFields bounds the values of all rows of a request of gRPC. A column with a name counts as two.
	maxFields = 1 << 21
	// maxUncounted is the length of a request that has few values in any case.
	maxUncounted = 32 << 10
	// binaryID bounds the length of an id in a list.
	binaryID = 10
	// maxSmall is the length of a request for health or reflection.
	maxSmall = 64 << 10
)

// limitConnections returns a function for http.Server.ConnState that closes the connections above a number.
func limitConnections(most int64) func(net.Conn, http.ConnState) {
	var open atomic.Int64
	return func(c net.Conn, to http.ConnState) {
		switch to {
		case http.StateNew:
			if open.Add(1) > most {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
}

// codecs are the forms of messages that a server reads. They replace those of connect, which do not bound what a message contains.
func (m *metrics) codecs() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithCodec(protoForm{m}), connect.WithCodec(jsonForm{m, "json"}),
		connect.WithCodec(jsonForm{m, "json; charset=utf-8"})}
}

// protoForm is the form of gRPC.
type protoForm struct{ metrics *metrics }

func (protoForm) Name() string                  { return "proto" }
func (protoForm) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (f protoForm) Unmarshal(b []byte, m any) error {
	err := checkFields(b, shapes[m.(proto.Message).ProtoReflect().Descriptor().Name()])
	if err == nil {
		err = proto.Unmarshal(b, m.(proto.Message))
	}
	return f.metrics.noteForm(m, err)
}

// jsonForm is JSON, by one of its names.
type jsonForm struct {
	metrics *metrics
	name    string
}

func (f jsonForm) Name() string                { return f.name }
func (jsonForm) Marshal(m any) ([]byte, error) { return protojson.Marshal(m.(proto.Message)) }

func (f jsonForm) Unmarshal(b []byte, m any) error {
	// Each message has a brace, and each text and number of a list a comma, but for the first.
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{','}) > maxFields {
		return f.metrics.noteForm(m, errFields)
	}
	return f.metrics.noteForm(m, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, m.(proto.Message)))
}

var errFields = badRequest("over %d values in one request", maxFields)

// shape lists the fields of a message that hold messages, by number. A list holds any number of texts and numbers.
type shape struct {
	inner map[protowire.Number]*shape
	list  bool
}

// shapes are those of the requests with many values.
var shapes = func() map[protoreflect.Name]*shape {
	value := &shape{inner: map[protowire.Number]*shape{4: {list: true}}}
	column := &shape{inner: map[protowire.Number]*shape{2: value}}
	row := &shape{inner: map[protowire.Number]*shape{1: column, 2: value, 3: value}}
	return map[protoreflect.Name]*shape{"PredictRequest": {inner: map[protowire.Number]*shape{1: row}}, "RowsRequest": {list: true}}
}()

// checkFields returns an error for a request with too many rows, or too many values in them.
func checkFields(b []byte, of *shape) error {
	if of == nil || len(b) <= maxUncounted {
		return nil
	}
	rows, values := 0, 0
	for len(b) > 0 {
		_, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if rows++; rows > maxRows || of.list && kind == protowire.BytesType && n > maxRows*binaryID {
			return badRequest("over %d rows in one request", maxRows)
		}
		if values += of.countValues(b[:n]); values > maxFields {
			return errFields
		}
		b = b[n:]
	}
	return nil
}

// packedIntegers is the field of the integers of a list: each is a varint, in one field together or in one each.
const packedIntegers = 2

// countVarints counts the varints that follow each other. The last byte of each is below 0x80.
func countVarints(b []byte) (found int) {
	for _, x := range b {
		found += int(x>>7 ^ 1)
	}
	return found
}

// countValues counts the messages, and the items of lists, in the fields of a message.
func (s *shape) countValues(b []byte) (found int) {
	for len(b) > 0 {
		number, kind, tag := protowire.ConsumeTag(b)
		n := protowire.ConsumeFieldValue(number, kind, b[max(tag, 0):])
		if tag < 0 || n < 0 {
			return found // it is reported when the message is read
		}
		inner := s.inner[number]
		if inner != nil || s.list {
			found++
		}
		if kind == protowire.BytesType && (inner != nil || s.list && number == packedIntegers) {
			content, _ := protowire.ConsumeBytes(b[tag:])
			if inner != nil {
				found += inner.countValues(content)
			} else {
				found += countVarints(content)
			}
		}
		b = b[tag+n:]
	}
	return found
}
