package config

import (
	"strings"
	"testing"
)

func TestProcesses(t *testing.T) {
	path := write(t, strings.Replace(base, "ranks = 2\n", "", 1))
	c, err := LoadFor(3, path, nil)
	if err != nil || c.Job.Ranks != 3 {
		t.Errorf("%v; ranks of 3 processes: %+v", err, c)
	}
	c, err = LoadFor(3, path, []string{"job.ranks=5"})
	if err != nil || c.Job.Ranks != 5 {
		t.Errorf("%v; ranks of 3 processes, 5 asked for: %+v", err, c)
	}
	_, err = LoadFor(3, path, []string{"job.ranks=2"})
	expect(t, err, "--set job.ranks=2: job.ranks: 2 ranks cannot be spread over 3 processes")
	_, err = LoadFor(2, path, []string{"collectives.transport=mem"})
	expect(t, err, `collectives.transport: "mem" connects the ranks of one process`)
	if _, err = Load(path, []string{"collectives.transport=mem"}); err != nil {
		t.Error(err)
	}
}

func TestRoles(t *testing.T) {
	path := write(t, strings.Replace(base, "ranks = 2\n", "", 1))
	c, err := LoadFor(2, path, []string{"ranks.servers=2", "ranks.trainers=3", "ranks.readers=1"})
	if err != nil || c.Job.Ranks != 6 || c.Trainers() != 3 {
		t.Errorf("%v: %+v", err, c)
	}
	if c, err = Load(path, []string{"job.ranks=3", "ranks.readers=1"}); err != nil || c.Trainers() != 2 {
		t.Errorf("%v: %+v", err, c)
	}
	for _, bad := range []struct {
		want string
		sets []string
	}{
		{"2 servers and 0 trainers: set both", []string{"ranks.servers=2"}},
		{"are not the 4 of job.ranks", []string{"job.ranks=4", "ranks.servers=2", "ranks.trainers=3"}},
		{"2 of 2 ranks would only read", []string{"job.ranks=2", "ranks.readers=2"}},
		{"-1 is out of range", []string{"ranks.readers=-1"}},
	} {
		_, err := Load(path, bad.sets)
		expect(t, err, bad.want)
	}
}

func TestSpares(t *testing.T) {
	path := write(t, strings.Replace(base, "ranks = 2\n", "", 1))
	xor := "ec.code=xor"
	c, err := LoadAmong(7, path, []string{xor, "elastic.spares=2"})
	if err != nil || c.Job.Ranks != 5 {
		t.Fatalf("%v, %+v", err, c)
	}
	c, err = LoadFor(7, path, []string{xor, "elastic.spares=2"})
	if err != nil || c.Job.Ranks != 7 {
		t.Fatalf("%v, %+v", err, c)
	}
	_, err = LoadAmong(2, path, []string{xor, "elastic.spares=2"})
	expect(t, err, "2 of 2 processes would wait")
	_, err = Load(path, []string{"elastic.spares=1"})
	expect(t, err, "the first loss ends the job")
	_, err = Load(path, []string{xor, "ec.r=2"})
	expect(t, err, "2 parity rows in a stripe are too many or too few: ec.code = \"xor\" allows 1; use that, or ec.code = \"rs\"")
}
