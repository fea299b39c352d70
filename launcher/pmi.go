package launcher

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// pmiKey is what process 0 puts its offer under.
const pmiKey = "ecrec-rendezvous"

// maxPMILine bounds an answer.
const maxPMILine = 8 << 10

// pmiShare gives every process of a PMI job what process 0 offers (the others
// offer nothing), in version 1 of the wire protocol: lines of key=value. It
// finalizes at once, so that mpirun takes no later end of a process for a crash.
func pmiShare(conn net.Conn, offer string, limit time.Duration) (string, error) {
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
			return nil, fmt.Errorf("no answer to %q within %v: not all processes came", strings.Fields(request)[0], limit)
		}
		if err != nil {
			return nil, err
		}
		got := map[string]string{}
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			got[key] = value
		}
		if rc := got["rc"]; got["cmd"] != answer || rc != "" && rc != "0" {
			return nil, fmt.Errorf("%q was answered by %q", strings.Fields(request)[0], clip(strings.TrimSpace(line)))
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
	if offer != "" {
		if _, err := ask(fmt.Sprintf("put kvsname=%s key=%s value=%s", space, pmiKey, offer), "put_result"); err != nil {
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

// OwnAddress is an address of this machine that others can reach: its name's, or
// the first that is not loopback's.
func OwnAddress() (string, error) {
	var all []string
	if name, err := os.Hostname(); err == nil {
		all, _ = net.LookupHost(name)
	}
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			all = append(all, n.IP.String())
		}
	}
	for _, a := range all {
		if ip := net.ParseIP(a); ip != nil && ip.IsGlobalUnicast() {
			return a, nil
		}
	}
	return "", errors.Join(errors.New("this machine has no address that others can reach; give its name one, or --rdzv HOST:PORT"), err)
}
