package place

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// checkAddress returns an error if an address is not HOST:PORT. The error names what, its source.
func checkAddress(what, address string) error {
	host, port, err := net.SplitHostPort(address)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil || host == "" || n < 1 || n > 65535 {
		return Errorf("%s %s: want HOST:PORT, as in node1:29400", what, address)
	}
	return nil
}

// isLoopback reports whether an address names this machine's loopback interface.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Socket is the address as package net takes it.
func (r Rendezvous) Socket() string {
	if r.Network == "unix" {
		return fmt.Sprintf("@ecrec-%d-%s", os.Getuid(), r.Address)
	}
	return r.Address
}

// OwnAddress is an address of this machine that others can reach: that of its name, or the
// first that is not loopback.
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

// ListenAddress is the IP address to listen at: loopback if all processes are on one machine.
func (p Place) ListenAddress() (string, error) {
	if p.OneHost {
		return "127.0.0.1", nil
	}
	return OwnAddress()
}
