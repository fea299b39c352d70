package place

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ecrec/ecrec/internal/printable"
	"github.com/ecrec/ecrec/launcher/wire"
)

// pmiKey is the key of process 0's record.
const pmiKey = "ecrec-rendezvous"

const (
	// maxPMILine bounds a reply, in bytes.
	maxPMILine = 8 << 10
	// maxPMIQuote bounds the part of a reply that an error quotes, in bytes.
	maxPMIQuote = 300
)

// ArrangePMI exchanges process 0's record through the launcher's key-value space. It returns
// process 0's listener, and the job's secret. The place's rendezvous is the address then.
func (p *Place) ArrangePMI(limit time.Duration) (net.Listener, []byte, error) {
	fd, err := strconv.Atoi(p.Rendezvous.Address)
	if err != nil {
		return nil, nil, err
	}
	conn, err := wire.Inherit(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("PMI_FD=%d: %w; give --rdzv HOST:PORT instead", fd, err)
	}
	defer conn.Close()
	var listener net.Listener
	var record string
	if p.Process == 0 {
		secret := DrawSecret()
		host, err := p.ListenAddress()
		if err != nil {
			return nil, nil, err
		}
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return nil, nil, fmt.Errorf("cannot listen for the other processes: %w", err)
		}
		record = formatRecord(listener.Addr().String(), secret)
	}
	var secret []byte
	record, err = sharePMI(conn, record, limit)
	if err == nil {
		p.Rendezvous, secret, err = parseRecord(record)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the launcher's PMI: %w; give --rdzv HOST:PORT instead", err)
	}
	return listener, secret, nil
}

// sharePMI gives every process of a PMI job process 0's record; the others pass "". It uses
// version 1 of the wire protocol: lines of key=value. It finalizes at once, so that mpirun
// takes no later end of a process for a crash.
func sharePMI(conn net.Conn, record string, limit time.Duration) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	r := bufio.NewReader(io.LimitReader(conn, 16*maxPMILine))
	ask := func(request, answer string) (map[string]string, error) {
		if _, err := io.WriteString(conn, "cmd="+request+"\n"); err != nil {
			return nil, err
		}
		line, err := r.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("no reply to %q within %v: not all processes joined", strings.Fields(request)[0], limit)
		}
		if err != nil {
			return nil, err
		}
		got := map[string]string{}
		for _, pair := range strings.Fields(line) {
			key, value, _ := strings.Cut(pair, "=")
			got[key] = value
		}
		if rc := got["rc"]; got["cmd"] != answer || rc != "" && rc != "0" {
			return nil, fmt.Errorf(`the reply to "%s" was "%s"`, strings.Fields(request)[0], printable.Clip(strings.TrimSpace(line), maxPMIQuote))
		}
		return got, nil
	}
	if _, err := ask("init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return "", err
	}
	got, err := ask("get_my_kvsname", "my_kvsname")
	if err != nil {
		return "", err
	}
	space := got["kvsname"]
	if record != "" {
		if _, err := ask(fmt.Sprintf("put kvsname=%s key=%s value=%s", space, pmiKey, record), "put_result"); err != nil {
			return "", err
		}
	}
	if _, err := ask("barrier_in", "barrier_out"); err != nil {
		return "", err
	}
	if got, err = ask(fmt.Sprintf("get kvsname=%s key=%s", space, pmiKey), "get_result"); err != nil {
		return "", err
	}
	_, err = ask("finalize", "finalize_ack")
	return got["value"], err
}
