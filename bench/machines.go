package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// machines are network namespaces in the role of machines, at one bridge. The link of each is shaped to a rate, in both directions.
type machines struct {
	bridge string // the namespace of the bridge
	names  []string
}

// The link of a machine: bursts of as much as passes in some time, but of a few packets at least, and a queue.
const (
	burstSeconds = 0.5e-3
	leastBurst   = 128 << 10
	queueFor     = "20ms"
	machinesPort = "29531"
)

// newMachines makes some machines with links of a rate.
func newMachines(n int, bytesPerS float64) (*machines, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("bench: the setting link needs root, for network namespaces; run it as root, or with link=none")
	}
	m := &machines{bridge: fmt.Sprintf("ecrec-%d", os.Getpid())}
	shape := fmt.Sprintf("root tbf rate %dbit burst %d latency %s", int64(8*bytesPerS), int64(max(burstSeconds*bytesPerS, leastBurst)), queueFor)
	lines := []string{"ip netns add " + m.bridge, "ip -n " + m.bridge + " link add bridge type bridge", "ip -n " + m.bridge + " link set bridge up"}
	for i := range n {
		name := fmt.Sprintf("%s-%d", m.bridge, i)
		m.names = append(m.names, name)
		lines = append(lines, "ip netns add "+name,
			fmt.Sprintf("ip link add port netns %s type veth peer name to%d netns %s", name, i, m.bridge),
			fmt.Sprintf("ip -n %s link set to%d master bridge up", m.bridge, i),
			fmt.Sprintf("ip -n %s addr add %s/24 dev port", name, addressOf(i)),
			fmt.Sprintf("ip -n %s link set port up", name), fmt.Sprintf("ip -n %s link set lo up", name),
			fmt.Sprintf("tc -n %s qdisc replace dev port %s", name, shape), fmt.Sprintf("tc -n %s qdisc replace dev to%d %s", m.bridge, i, shape))
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			m.remove()
			return nil, fmt.Errorf("bench: the setting link: %s: %w: %s; it needs iproute2, and a kernel with network namespaces, veth, bridges and tbf",
				line, err, strings.TrimSpace(string(out)))
		}
	}
	return m, nil
}

// addressOf is the address of a machine.
func addressOf(i int) string { return fmt.Sprintf("198.18.9.%d", i+1) }

// commands run a program on each machine, as a process of one job, under host names that differ.
func (m *machines) commands(args []string) (all [][]string) {
	secret := rand.Text()
	for i, name := range m.names {
		c := []string{"ip", "netns", "exec", name, "env", fmt.Sprint("RANK=", i), fmt.Sprint("WORLD_SIZE=", len(m.names)), "ECREC_SECRET=" + secret,
			"unshare", "--uts", "sh", "-c", "hostname " + name + ` && exec "$@"`, "sh"}
		all = append(all, append(append(c, args...), "--rdzv", addressOf(0)+":"+machinesPort))
	}
	return all
}

// remove removes the namespaces, and their links with them.
func (m *machines) remove() {
	for _, name := range append(m.names, m.bridge) {
		_ = exec.Command("ip", "netns", "del", name).Run()
	}
}
