package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestKafkaTLS: a broker whose certificate is of a CA that only SSL_CERT_FILE names. One of its listeners also requires a user and a
// password, by SCRAM-SHA-512.
func TestKafkaTLS(t *testing.T) {
	if !*kafka {
		t.Skip("make test-kafka runs it")
	}
	dir, config := t.TempDir(), golden("dlrm-adagrad")
	ours, other := newAuthority(t, dir, "ours"), newAuthority(t, dir, "other")
	keys := filepath.Join(dir, "broker.pem")
	ours.issueBroker(t, keys)
	open, users := startTLSBroker(t, keys)
	vars := func(ca *authority, password string) []string {
		return []string{"SSL_CERT_FILE=" + ca.path, "ECREC_KAFKA_USER=ann", "ECREC_KAFKA_PASSWORD=" + password}
	}
	const refused = "refuses the user of ECREC_KAFKA_USER, or the password"
	const unknown = " is refused: x509: certificate signed by unknown authority"
	for _, c := range []struct {
		to, says string
		vars     []string
	}{{users, refused, vars(ours, "guessed")}, {users, unknown, vars(other, "right")}, {open, unknown, vars(other, "right")}} {
		for code, args := range map[int][]string{1: {"follow", c.to, "--to", filepath.Join(dir, "none")},
			2: train(config, filepath.Join(dir, "none"), kafkaSets(c.to)...)} {
			got := expect(t, code, c.vars, args...)
			expectLine(t, got.stderr, c.says)
			if strings.Contains(got.stderr+got.stdout, "guessed") || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("%s: %q", c.to, got.stderr)
			}
		}
	}
	for name, to := range map[string]string{"open": open, "users": users} {
		out, made := filepath.Join(dir, name), filepath.Join(dir, name+"-made")
		right := vars(ours, "right")
		expect(t, 0, right, append(train(config, out, kafkaSets(to)...), "--np", "2")...)
		expect(t, 0, right, "follow", to, "--to", made, "--at", "end")
		expectSame(t, filepath.Join(made, stepFolder(200)), filepath.Join(out, "checkpoints", stepFolder(200)))
	}
}

// startTLSBroker starts a broker with the key and the certificate of a file. It returns a topic of its listener for TLS alone, and one of
// its listener for TLS and SCRAM-SHA-512, with the user ann and the password right. A third listener, without either, has the user made.
func startTLSBroker(t *testing.T, keys string) (open, users string) {
	t.Helper()
	port := freePorts(4)
	at := func(i int) string { return fmt.Sprint("127.0.0.1:", port+i) }
	clients := fmt.Sprintf("PLAINTEXT://%s,OPEN://%s,USERS://%s", at(0), at(1), at(2))
	options := []string{"--port", strconv.Itoa(port)}
	for _, set := range []string{
		"listeners=" + clients + ",CONTROLLER://" + at(3),
		"advertised.listeners=" + clients,
		"controller.quorum.voters=1@" + at(3),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OPEN:SSL,USERS:SASL_SSL,CONTROLLER:PLAINTEXT",
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + keys,
		"sasl.enabled.mechanisms=SCRAM-SHA-512",
		"listener.name.users.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
	} {
		options = append(options, "--set", set)
	}
	b := startBroker(t, options...)
	b.admin(t, func(ctx context.Context, c *kadm.Client) error {
		ann := kadm.UpsertSCRAM{User: "ann", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "right"}
		all, err := c.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{ann})
		if err != nil {
			return err
		}
		return all.Error()
	})
	return "kafka://" + at(1) + "/open?tls=true", "kafka://" + at(2) + "/users?tls=true&sasl=scram-sha-512"
}

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
	path string // of the certificate
}

// newAuthority makes an authority, with its certificate in a folder.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{key: newKey(t), path: filepath.Join(dir, name+".pem")}
	a.cert = &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	writePEM(t, a.path, &pem.Block{Type: "CERTIFICATE", Bytes: a.sign(t, a.cert, a.key)})
	return a
}

// issueBroker writes a key and a certificate of a broker on this machine to a file.
func (a *authority) issueBroker(t *testing.T, path string) {
	t.Helper()
	key := newKey(t)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "broker"},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	writePEM(t, path, &pem.Block{Type: "PRIVATE KEY", Bytes: private}, &pem.Block{Type: "CERTIFICATE", Bytes: a.sign(t, cert, key)})
}

// sign returns a certificate of a key.
func (a *authority) sign(t *testing.T, cert *x509.Certificate, key *rsa.PrivateKey) []byte {
	t.Helper()
	signed, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, path string, blocks ...*pem.Block) {
	t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
