package launcher

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// A supervisor that joins just before the job's end and links after it receives that end.
func TestJoinsJustBeforeTheEnd(t *testing.T) {
	t.Parallel()
	x := startTogether(t, 3, 1, "100 0", "")
	kill(t, syscall.SIGKILL, x.reaches(1, 0, 1, 2)[2].PPID)
	x.reaches(2, 0, 1)
	secret := []byte("0123456789abcdef")
	self := newMember(2) // the test itself is its end of the protocol
	self.Endpoint = "127.0.0.1:1"
	p := place.Place{Process: 2, Processes: 3, Rendezvous: place.Rendezvous{Network: "tcp",
		Address: strings.TrimPrefix(variable(x.all[0], "TEST_RDZV"), "TEST_RDZV=")}}
	var welcome control.Message
	until(t, "the job to accept it", func() bool {
		got, err := p.Visit(place.Visit{Secret: secret, Handshake: 5 * time.Second, Meet: patience, Notice: patience,
			Introduce: func(net.Addr) (control.Message, error) {
				return control.Message{Kind: control.KindJoin, Processes: 3, Member: &self}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		got.Conn.Close()
		welcome = got.Welcome
		return welcome.Process != control.None
	})
	x.make("finish")
	time.Sleep(5 * testHeartbeat) // the workers end meanwhile, and so does the job
	for _, v := range welcome.Voters {
		conn, _, err := wire.Dial(v.Endpoint, secret, control.Message{Kind: control.KindVisit, Process: welcome.Process}, time.Second)
		if err != nil {
			continue // this voter has left, or is the new member itself
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		for m, err := conn.Receive(); err == nil; m, err = conn.Receive() {
			if m.Kind == control.KindEnd {
				if m.Code != 0 {
					t.Errorf("the job ended with code %d", m.Code)
				}
				conn.Close()
				x.allEnd(0, 0, 1)
				return
			}
		}
	}
	t.Error("no voter sends the job's end")
}
