package slurm

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var seed = flag.Uint64("seed", 0, "replays a random test; 0: another each time")

// random returns a source of random numbers, and logs its seed.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("replay with -seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"":                               "",
		"localhost":                      "localhost",
		"n1,m1":                          "n1 m1",
		"n[01-03,7]-ib,login[1-2]x[3-4]": "n01-ib n02-ib n03-ib n7-ib login1x3 login1x4 login2x3 login2x4",
		"n[8-10]":                        "n8 n9 n10",
		"n[08-10]":                       "n08 n09 n10",
		"n[098-100]":                     "n098 n099 n100",
		"n[01-3]":                        "n01 n02 n03",
		"n[2,1,1]":                       "n2 n1 n1",
		"[1-2]":                          "1 2",
		"r[0-1][0-1]":                    "r00 r01 r10 r11",
	} {
		got, err := Expand(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %s", list, got, err, want)
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	for list, want := range map[string]string{
		",":                                "missing",
		"a,,b":                             "missing",
		"a,":                               "missing",
		"n[1":                              "without ]",
		"n[1,2":                            "without ]",
		"n1]":                              `stray "]"`,
		"n[1]]":                            `stray "]"`,
		"n[[1]]":                           "neither a number",
		"n[]":                              "neither a number",
		"n[a]":                             "neither a number",
		"n[1-]":                            "neither a number",
		"n[-1]":                            "neither a number",
		"n[1-2-3]":                         "neither a number",
		"n[3-1]":                           "neither a number",
		"n[1,,2]":                          "neither a number",
		"n[1000000000000000000]":           "neither a number",
		"n1 n2":                            `stray " "`,
		"n[0-65536]":                       "more than 65536",
		"n[0-65535],m":                     "more than 65536",
		"n[0-999][0-999]":                  "more than 65536",
		"n[0-65535][0-65535][0-65535]":     "more than 65536",
		"n[0-999999999999999999]":          "more than 65536",
		"n[0-40000],m[0-40000],l[0-40000]": "more than 65536",
	} {
		if got, err := Expand(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d hosts, %v, want an error with %q", list, len(got), err, want)
		}
	}
	if got, err := Expand("n[0-65535]"); err != nil || len(got) != maxHosts {
		t.Errorf("%d hosts, %v", len(got), err)
	}
}

func TestCompress(t *testing.T) {
	for hosts, want := range map[string]string{
		"":                  "",
		"login":             "login",
		"n1 n2 n3 n5":       "n[1-3,5]",
		"n01 n02 n03 n7":    "n[01-03,7]",
		"n9 n10":            "n[9-10]",
		"n09 n10":           "n[09-10]",
		"n1 m1 n2":          "n1,m1,n2",
		"n2 n1":             "n[2,1]",
		"n01-ib n02-ib n03": "n[01-02]-ib,n03",
		"r1n1 r1n2 r2n1":    "r1n[1-2],r2n1",
	} {
		if got := Compress(strings.Fields(hosts)); got != want {
			t.Errorf("%s: %s, want %s", hosts, got, want)
		}
	}
}

// randomHosts returns a list with ranges, gaps, several widths and suffixes, and repeats.
func randomHosts(r *rand.Rand) (hosts []string) {
	for range r.IntN(8) {
		prefix := []string{"n", "login", "r1n", "rack-2-", "", "x9y"}[r.IntN(6)]
		suffix := []string{"", "", "-ib", "x", ".site"}[r.IntN(5)]
		first, width := r.IntN(120), r.IntN(5)
		for i := range 1 + r.IntN(12) {
			if r.IntN(4) > 0 {
				hosts = append(hosts, fmt.Sprintf("%s%0*d%s", prefix, width, first+i, suffix))
			}
		}
		if r.IntN(4) == 0 {
			hosts = append(hosts, "gateway")
		}
	}
	return hosts
}

func TestExpandUndoesCompress(t *testing.T) {
	r := random(t)
	for i := range 2000 {
		hosts := randomHosts(r)
		if i%2 == 0 {
			slices.Sort(hosts)
		}
		got, err := Expand(Compress(hosts))
		if err != nil || !slices.Equal(got, hosts) {
			t.Fatalf("%v: %s expands to %v, %v", hosts, Compress(hosts), got, err)
		}
	}
}

// TestSlurmAgrees compares with Slurm, if scontrol is installed.
func TestSlurmAgrees(t *testing.T) {
	scontrol, err := exec.LookPath("scontrol")
	if err != nil {
		t.Skip("scontrol is not there to compare with")
	}
	config := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(config, []byte("ClusterName=test\nSlurmctldHost=localhost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", config) // no controller is asked
	show := func(what, list string) string {
		t.Helper()
		out, err := exec.Command(scontrol, "show", what, list).CombinedOutput()
		if err != nil {
			t.Fatalf("scontrol show %s %s: %v\n%s", what, list, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	r := random(t)
	for _, list := range []string{"n[01-03,7],login[1-2]x[3-4]", "n[08-10]", "n[01-3]", "n[2,1,1]", "r[0-1][0-1]"} {
		got, err := Expand(list)
		if want := strings.Fields(show("hostnames", list)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; Slurm says %v", list, got, err, want)
		}
	}
	for range 20 {
		first, width := r.IntN(120), r.IntN(5)
		var hosts []string
		for i := range 20 {
			if r.IntN(4) > 0 {
				hosts = append(hosts, fmt.Sprintf("n%0*d", width, first+i))
			}
		}
		list := Compress(hosts)
		if want := show("hostlist", strings.Join(hosts, ",")); list != want {
			t.Errorf("%v: %s; Slurm says %s", hosts, list, want)
		}
		if got := strings.Fields(show("hostnames", list)); !slices.Equal(got, hosts) {
			t.Errorf("%s is %v to Slurm, not %v", list, got, hosts)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, list := range []string{"", "n[01-03,7]-ib,login[1-2]x[3-4]", "n[08-10]", "n[1", "a,,b", "n[9-1]", "n0[0-3]9"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := Expand(list)
		if err != nil {
			return
		}
		if len(hosts) > maxHosts {
			t.Fatalf("%q: %d hosts", list, len(hosts))
		}
		again, err := Expand(Compress(hosts))
		if err != nil || !slices.Equal(again, hosts) {
			t.Fatalf("%q: %q, compressed to %q, expands to %q, %v", list, hosts, Compress(hosts), again, err)
		}
	})
}
