package kafka

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ecrec/ecrec/internal/env"
)

// answers notes when a broker last answered a read, since the client hides brokers that are down. It is a hook of the client.
type answers struct {
	env  env.Env
	at   atomic.Int64 // a time of env
	fail atomic.Pointer[error]
}

// keyFetch is the number of Kafka's request to read.
const keyFetch = 1

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (a *answers) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		a.fail.Store(&err)
	}
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (a *answers) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	switch {
	case err != nil:
		a.fail.Store(&err)
	case key == keyFetch:
		a.at.Store(int64(a.env.Now()))
		a.fail.Store(nil)
	}
}

// newest returns when a read was last answered, and the last failure since then.
func (a *answers) newest() (time.Duration, error) {
	at := time.Duration(a.at.Load())
	if err := a.fail.Load(); err != nil {
		return at, *err
	}
	return at, nil
}

var (
	_ kgo.HookBrokerConnect = (*answers)(nil)
	_ kgo.HookBrokerRead    = (*answers)(nil)
)
