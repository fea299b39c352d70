package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

type produceCmd struct {
	Files      []string `arg:"" complete:"file" help:"Files of csv, with a header, or of criteo-tsv."`
	To         string   `required:"" placeholder:"TOPIC" help:"The topic: kafka://HOST:PORT/TOPIC, or file:DIR; made if it does not exist."`
	Partitions int      `default:"1" placeholder:"N" help:"Partitions of a topic that is made. They get rows in turn, as train reads them."`
	Format     string   `default:"csv" enum:"csv,criteo-tsv" help:"Format of the files."`
	Delimiter  string   `default:"," placeholder:"BYTE" help:"Byte between the fields of csv."`
	Rate       int      `placeholder:"N" help:"Rows a second; 0: as many as possible."`
	Samples    int64    `placeholder:"N" help:"Write the first N rows only; 0: all."`
}

// Run writes rows of files to a topic.
func (c *produceCmd) Run(a *app) error {
	if err := config.CheckTopic(c.To); err != nil {
		return errUsage("--to: " + err.Error())
	}
	if len(c.Delimiter) != 1 || c.Partitions < 1 || c.Rate < 0 || c.Samples < 0 {
		return errUsage("data produce: --delimiter is one byte, --partitions 1 or more, --rate and --samples 0 or more")
	}
	e := env.Real()
	topic, err := openSamples(e, c.To)
	if err != nil {
		return fmt.Errorf("data produce: %s: %w", c.To, err)
	}
	defer topic.Close()
	p := producer{env: e, rate: c.Rate, began: e.Now(), late: func(why error) error {
		report.Line(a.out, "warning: %s: %v", topic.Name(), why)
		return a.stop.err()
	}}
	if err := p.openPartitions(topic, c.Partitions); err != nil {
		return fmt.Errorf("data produce: %s: %w", topic.Name(), err)
	}
	defer p.closePartitions()
	var names []string
	err = data.EachRow(e, c.Files, c.Format, c.Delimiter[0], func(columns []string, row []byte) error {
		if names == nil {
			names = columns
		} else if !slices.Equal(names, columns) {
			return errUsage(fmt.Sprintf("data produce: a file has the columns %v, and one before it %v; use two topics", columns, names))
		}
		if c.Samples > 0 && p.rows == c.Samples {
			return errEnough
		}
		if err := a.stop.err(); err != nil {
			return err
		}
		return p.putRow(row)
	})
	if err == errEnough {
		err = nil
	}
	if !p.failed {
		if flushed := p.flushRows(); err == nil {
			err = flushed
		}
	}
	if err != nil {
		return fmt.Errorf("data produce: %s: after %s: %w", topic.Name(), report.Count(p.rows, "row"), err)
	}
	fmt.Fprintf(a.out, "%s: %s to %s\n", topic.Name(), report.Count(p.rows, "row"), report.Count(int64(len(p.parts)), "partition"))
	if names != nil {
		fmt.Fprintf(a.out, "columns = [\"%s\"]\n", strings.Join(names, `", "`))
	}
	return nil
}

// errEnough ends the reading of files.
var errEnough = fmt.Errorf("enough rows are written")

// produceBytes is how much waits for a partition until it is sent, and how much in all until it is acknowledged.
const (
	produceBytes = 256 << 10
	syncBytes    = 16 << 20
)

// producer writes rows to the partitions of a topic in turn.
type producer struct {
	env    env.Env
	parts  []stream.Partition
	wait   [][][]byte // by partition
	bytes  int        // of wait
	sent   int        // since the last Sync
	rows   int64
	rate   int
	began  time.Duration
	late   func(why error) error // see stream.SyncAll
	failed bool                  // rows could not be sent
}

func (p *producer) openPartitions(topic stream.Topic, partitions int) error {
	n, err := topic.Partitions()
	if err == nil && n == 0 {
		n, err = partitions, topic.Create(partitions)
	}
	for i := 0; err == nil && i < n; i++ {
		var part stream.Partition
		if part, err = topic.Open(i); err == nil {
			p.parts, p.wait = append(p.parts, part), append(p.wait, nil)
		}
	}
	return err
}

func (p *producer) putRow(row []byte) error {
	i := int(p.rows % int64(len(p.parts)))
	p.wait[i] = append(p.wait[i], slices.Clone(row))
	p.rows, p.bytes = p.rows+1, p.bytes+len(row)
	if p.rate > 0 {
		due := p.began + time.Duration(float64(p.rows)/float64(p.rate)*float64(time.Second))
		if early := due - p.env.Now(); early > 0 {
			if err := p.flushRows(); err != nil {
				return err
			}
			p.env.Sleep(due - p.env.Now())
		}
	}
	if p.bytes < produceBytes*len(p.parts) {
		return nil
	}
	return p.sendRows(p.sent > syncBytes)
}

// flushRows sends all rows that wait, and returns when they are acknowledged.
func (p *producer) flushRows() error { return p.sendRows(true) }

func (p *producer) sendRows(sync bool) (err error) {
	defer func() { p.failed = p.failed || err != nil }()
	for i, part := range p.parts {
		if len(p.wait[i]) > 0 {
			if err := part.Append(p.wait[i]); err != nil {
				return err
			}
			p.wait[i] = nil
		}
	}
	p.sent, p.bytes = p.sent+p.bytes, 0
	if !sync {
		return nil
	}
	p.sent = 0
	for _, part := range p.parts {
		if err := stream.SyncAll(part, p.late); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) closePartitions() {
	for _, part := range p.parts {
		part.Close()
	}
}
