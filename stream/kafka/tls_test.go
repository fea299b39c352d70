package kafka

import (
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// TestUnknownCertificate: a certificate that this machine does not trust is named, and not taken for a broker that is down.
func TestUnknownCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it gets the failed handshake
	s.StartTLS()
	defer s.Close()
	at := s.Listener.Addr().String()
	_, err := Open(env.Real(), Scheme+at+"/t?tls=true")
	if !errors.As(err, new(*Unreachable)) || !strings.HasPrefix(err.Error(), "the certificate of "+at+" is refused: x509: ") {
		t.Error(err)
	}
}
