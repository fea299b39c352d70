package sim

import (
	"fmt"
	"os"
	"testing"

	"github.com/ecrec/ecrec/stream"
)

func TestDbg(t *testing.T) {
	d := newData(t)
	dbg = func(b *broker) {
		for i, list := range b.records {
			c := stream.NewChain(i, stream.Start(0))
			for _, r := range list {
				e, err := c.Take(r)
				if e != nil || err != nil {
					if e != nil {
						fmt.Printf("p%d off %d: %d..%d abs=%v rows=%d lin %s\n", i, r.Offset, e.From, e.To, e.Absolute, len(e.Slots), e.Lineage.Short())
					} else {
						fmt.Println(i, err)
					}
				}
			}
			fmt.Println("p", i, "records", len(list), "dropped", c.Dropped())
		}
	}
	var s uint64
	fmt.Sscan(os.Getenv("DBGSEED"), &s)
	_, err := Run(d, s, "")
	fmt.Println(err)
}
