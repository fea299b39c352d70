package cli

import (
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// Processes that one transport connects tell each other over it how to join without it.
func TestMeetOverATransport(t *testing.T) {
	const processes = 3
	ended := make(chan error, processes)
	for _, ep := range transport.NewMem(env.Real(), processes, 1) {
		go func() {
			o, err := meetOver(ep, true)
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
				if _, err := exchange(beside, meeting{Host: name}); err != nil {
					ended <- err
					return
				}
			}
			_, err = exchange(ep, meeting{}) // nobody leaves before
			ended <- err
		}()
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
