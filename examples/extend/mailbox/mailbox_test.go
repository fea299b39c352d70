package mailbox_test

import (
	"testing"

	"github.com/ecrec/ecrec/examples/extend/mailbox"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
	"github.com/ecrec/ecrec/transport/transporttest"
)

func TestTransport(t *testing.T) {
	transporttest.Run(t, func(_ *testing.T, n int) []transport.Endpoint { return mailbox.New(env.Real(), n, 7) })
}
