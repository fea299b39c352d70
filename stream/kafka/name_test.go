package kafka

import (
	"strings"
	"testing"
)

// TestNames: an option of a topic's name that does not exist, or has a wrong value, is refused with what may be used instead.
func TestNames(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "?tls=true&sasl=plain&replicas=3&retention=limited&compression=zstd": "", "?compression=none": "",
		"?compression=zip": "use none, lz4, snappy or zstd", "?retention=7d": "use limited", "?sasl=gssapi": "use plain, scram-sha-256",
		"?tls=maybe": "tls=maybe", "?replicas=many": "replicas=many", "?acks=1": "use tls, sasl, replicas, retention or compression",
	} {
		err := Check("kafka://a:1,b:2/t" + query)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
}
