package kafka

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeBroker is a cluster of one broker with a topic "t" of one partition. Tests change it between requests.
type fakeBroker struct {
	listener net.Listener
	group    sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	id      [16]byte // of the topic; zero: it was deleted
	first   int64
	next    int64
	batches []fakeBatch
	epoch   int32       // of the leader
	kept    int64       // where the records of earlier epochs end
	produce *kerr.Error // of writes
	refuses bool        // reads
	refused int         // reads that were refused
	ends    int         // requests to come whose connection ends without an answer
}

// fakeBatch is a batch of records up to an offset.
type fakeBatch struct {
	next  int64
	bytes []byte
}

// versions are the requests that a fakeBroker takes, with the newest version of each.
var versions = map[kmsg.Key]int16{kmsg.Produce: 9, kmsg.Fetch: 13, kmsg.ListOffsets: 7, kmsg.Metadata: 12, kmsg.ApiVersions: 3, kmsg.InitProducerID: 4,
	kmsg.OffsetForLeaderEpoch: 4}

func startFake(t *testing.T) *fakeBroker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBroker{listener: l, id: [16]byte{1}}
	b.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.change(func() { b.conns = append(b.conns, c) })
			b.group.Go(func() { _ = b.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		b.change(func() {
			for _, c := range b.conns {
				c.Close()
			}
		})
		b.group.Wait()
	})
	return b
}

// change changes the broker.
func (b *fakeBroker) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// serve answers the requests of a connection.
func (b *fakeBroker) serve(c net.Conn) error {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return err
		}
		in := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, in); err != nil {
			return err
		}
		key, version := int16(binary.BigEndian.Uint16(in)), int16(binary.BigEndian.Uint16(in[2:]))
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		body := in[10+int(binary.BigEndian.Uint16(in[8:])):] // behind the client's name
		if req.IsFlexible() {
			body = body[1:] // no tags
		}
		if err := req.ReadFrom(body); err != nil {
			return err
		}
		resp, err := b.answer(req)
		if err != nil {
			return err
		}
		out := append([]byte{0, 0, 0, 0}, in[4:8]...)
		if resp.IsFlexible() && key != kmsg.ApiVersions.Int16() {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

func (b *fakeBroker) answer(req kmsg.Request) (kmsg.Response, error) {
	if r, ok := req.(*kmsg.FetchRequest); ok {
		return b.fetch(r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ends > 0 && req.Key() != kmsg.ApiVersions.Int16() {
		b.ends--
		return nil, io.EOF
	}
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		for key, most := range versions {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = key.Int16(), most
			r.ApiKeys = append(r.ApiKeys, k)
		}
	case *kmsg.MetadataResponse:
		b.describe(r)
	case *kmsg.InitProducerIDResponse:
		r.ProducerID = 7
	case *kmsg.ListOffsetsResponse:
		p := kmsg.NewListOffsetsResponseTopicPartition()
		if p.Offset, p.LeaderEpoch = b.next, b.epoch; req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp != -1 {
			p.Offset = b.first // also of a time: all records are newer
		}
		x := kmsg.NewListOffsetsResponseTopic()
		x.Topic, x.Partitions = "t", append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
	case *kmsg.OffsetForLeaderEpochResponse:
		p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		p.LeaderEpoch, p.EndOffset = 0, b.kept
		x := kmsg.NewOffsetForLeaderEpochResponseTopic()
		x.Topic, x.Partitions = "t", append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
	case *kmsg.ProduceResponse:
		b.add(req.(*kmsg.ProduceRequest), r)
	default:
		return nil, errors.New("the request is not known")
	}
	return resp, nil
}

// describe describes the cluster.
func (b *fakeBroker) describe(r *kmsg.MetadataResponse) {
	broker := kmsg.NewMetadataResponseBroker()
	host, port, _ := net.SplitHostPort(b.listener.Addr().String())
	n, _ := strconv.Atoi(port)
	broker.Host, broker.Port = host, int32(n)
	name := "t"
	x := kmsg.NewMetadataResponseTopic()
	if x.Topic, x.TopicID = &name, b.id; b.id == [16]byte{} {
		x.ErrorCode = kerr.UnknownTopicOrPartition.Code
	} else {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.LeaderEpoch, p.Replicas, p.ISR = b.epoch, []int32{0}, []int32{0}
		x.Partitions = append(x.Partitions, p)
	}
	r.Brokers, r.Topics = append(r.Brokers, broker), append(r.Topics, x)
}

// add appends the batch of a write.
func (b *fakeBroker) add(req *kmsg.ProduceRequest, r *kmsg.ProduceResponse) {
	p := kmsg.NewProduceResponseTopicPartition()
	if p.BaseOffset, p.LogStartOffset = b.next, b.first; b.produce != nil {
		p.ErrorCode, b.produce = b.produce.Code, nil
	} else {
		batch := req.Topics[0].Partitions[0].Records
		binary.BigEndian.PutUint64(batch, uint64(b.next))
		binary.BigEndian.PutUint32(batch[12:], uint32(b.epoch))
		b.next += int64(binary.BigEndian.Uint32(batch[57:]))
		b.batches = append(b.batches, fakeBatch{b.next, batch})
	}
	x := kmsg.NewProduceResponseTopic()
	x.Topic, x.Partitions = "t", append(x.Partitions, p)
	r.Topics = append(r.Topics, x)
}

// fetch waits for records.
func (b *fakeBroker) fetch(req *kmsg.FetchRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	if len(req.Topics) == 0 {
		return resp, nil
	}
	for until := time.Now().Add(time.Duration(req.MaxWaitMillis) * time.Millisecond); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		refuses, p := b.refuses, b.read(req)
		if refuses {
			b.refused++
		}
		b.mu.Unlock()
		if refuses {
			return nil, errors.New("refused")
		}
		if p.ErrorCode != 0 || len(p.RecordBatches) > 0 || time.Now().After(until) {
			x := kmsg.NewFetchResponseTopic()
			x.TopicID, x.Partitions = req.Topics[0].TopicID, append(x.Partitions, p)
			resp.Topics = append(resp.Topics, x)
			return resp, nil
		}
	}
}

// read returns the records that are there.
func (b *fakeBroker) read(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	p, of := kmsg.NewFetchResponseTopicPartition(), req.Topics[0].Partitions[0]
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = b.next, b.next, b.first
	switch {
	case req.Topics[0].TopicID != b.id:
		p.ErrorCode = kerr.UnknownTopicID.Code
	case of.CurrentLeaderEpoch < b.epoch:
		p.ErrorCode = kerr.FencedLeaderEpoch.Code
	case of.FetchOffset < b.first || of.FetchOffset > b.next:
		p.ErrorCode = kerr.OffsetOutOfRange.Code
	default:
		for _, x := range b.batches {
			if x.next > of.FetchOffset {
				p.RecordBatches = append(p.RecordBatches, x.bytes...)
			}
		}
	}
	return p
}
