package cli

import (
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// Processes that one transport connects can connect over another.
func TestExchangePeersOverATransport(t *testing.T) {
	const processes = 3
	ended := make(chan error, processes)
	for _, ep := range transport.NewMem(env.Real(), processes, 1) {
		go func() {
			o, err := exchangePeers(ep, true)
			if err != nil {
				ended <- err
				return
			}
			defer o.Listener.Close()
			join := benchJoin(o)
			for _, name := range []string{"shm", "tcp"} { // both stay open
				beside, err := join(name)
				if err != nil {
					ended <- err
					return
				}
				defer beside.Close()
				if _, err := allGather(beside, peer{Host: name}); err != nil {
					ended <- err
					return
				}
			}
			_, err = allGather(ep, peer{}) // no process closes before
			ended <- err
		}()
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
