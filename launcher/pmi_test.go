package launcher

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
)

// pmiServer is the launcher's end of PMI version 1, for n processes.
type pmiServer struct {
	n       int
	mu      sync.Mutex
	waiting []io.Writer // in the barrier
	values  map[string]string
	ended   int // finalized
}

func (s *pmiServer) serve(c io.ReadWriter) {
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		got := map[string]string{}
		for _, w := range strings.Fields(lines.Text()) {
			k, v, _ := strings.Cut(w, "=")
			got[k] = v
		}
		s.mu.Lock()
		switch got["cmd"] {
		case "init":
			fmt.Fprintln(c, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
		case "get_my_kvsname":
			fmt.Fprintln(c, "cmd=my_kvsname kvsname=kvs_7_0")
		case "put":
			s.values[got["kvsname"]+" "+got["key"]] = got["value"]
			fmt.Fprintln(c, "cmd=put_result rc=0 msg=success")
		case "barrier_in":
			s.waiting = append(s.waiting, c)
			if len(s.waiting) == s.n {
				for _, w := range s.waiting {
					fmt.Fprintln(w, "cmd=barrier_out")
				}
			}
		case "get":
			if v, ok := s.values[got["kvsname"]+" "+got["key"]]; ok {
				fmt.Fprintf(c, "cmd=get_result rc=0 msg=success value=%s\n", v)
			} else {
				fmt.Fprintln(c, "cmd=get_result rc=-1 msg=key_not_found value=unknown")
			}
		case "finalize":
			s.ended++
			fmt.Fprintln(c, "cmd=finalize_ack")
		}
		s.mu.Unlock()
	}
}

func TestPMI(t *testing.T) {
	t.Parallel()
	server := &pmiServer{n: 2, values: map[string]string{}}
	out := t.TempDir()
	var all []*trial
	for p := range 2 {
		ours, theirs, err := childConn()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		go server.serve(ours)
		all = append(all, beginWith(t, out, []*os.File{theirs}, fmt.Sprintf("PMI_RANK=%d", p), "PMI_SIZE=2", "PMI_FD=3",
			"MPI_LOCALNRANKS=2", "TEST_DO=done"))
		theirs.Close()
	}
	for _, x := range all {
		x.ends(0)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.ended != 2 {
		t.Errorf("%d processes finalized", server.ended)
	}
}
