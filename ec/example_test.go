package ec_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/ecrec/ecrec/ec"
)

// A row changes, and its owner sends the delta to the holder of each parity. No other row of
// the stripe is read.
func ExampleCode_Fold() {
	code, err := ec.NewCode(ec.RS, 4, 2)
	if err != nil {
		log.Fatal(err)
	}
	rows := [][]byte{[]byte("this"), []byte("four"), []byte("rows"), []byte("here")}
	parity := [][]byte{make([]byte, 4), make([]byte, 4)}
	code.Encode(parity, rows)

	const column = 2
	updated, delta := []byte("dogs"), make([]byte, 4)
	ec.Delta(delta, rows[column], updated)
	for j := range parity {
		code.Fold(parity[j], delta, column, j)
	}

	rows[column] = updated
	encoded := [][]byte{make([]byte, 4), make([]byte, 4)}
	code.Encode(encoded, rows)
	fmt.Println(bytes.Equal(parity[0], encoded[0]), bytes.Equal(parity[1], encoded[1]))
	// Output: true true
}

// Two of six shards are lost: a data column and a parity.
func ExampleCode_Decoder() {
	code, err := ec.NewCode(ec.RS, 4, 2)
	if err != nil {
		log.Fatal(err)
	}
	shards := [][]byte{[]byte("this"), []byte("four"), []byte("rows"), []byte("here"), make([]byte, 4), make([]byte, 4)}
	code.Encode(shards[4:], shards[:4])

	lost := []int{1, 4}
	decoder, err := code.Decoder(lost, []int{1})
	if err != nil {
		log.Fatal(err)
	}
	var read [][]byte
	for _, shard := range decoder.Reads {
		read = append(read, shards[shard])
	}
	row := make([]byte, 4)
	decoder.Decode([][]byte{row}, read)
	fmt.Printf("from shards %d: %s\n", decoder.Reads, row)

	_, err = code.Decoder([]int{0, 1, 4}, []int{0})
	fmt.Println(err)
	// Output:
	// from shards [0 2 3 5]: four
	// ec: shards [0 1 4] are lost of 4 data columns and 2 parities: at most 2 may be
}

// Ten owners in groups of 4 + 1. The parity of consecutive stripes rotates over the members.
func ExampleGroup_Holder() {
	layout, err := ec.NewLayout(10, 4, 1)
	if err != nil {
		log.Fatal(err)
	}
	group := layout.GroupOf(7)
	fmt.Printf("owners %d to %d\n", group.First, group.First+group.Size-1)
	for stripe := range int64(6) {
		owner, row := group.Holder(stripe, group.Data())
		fmt.Printf("stripe %d: its parity is row %d of owner %d\n", stripe, row, owner)
	}
	// Output:
	// owners 5 to 9
	// stripe 0: its parity is row 0 of owner 5
	// stripe 1: its parity is row 0 of owner 6
	// stripe 2: its parity is row 0 of owner 7
	// stripe 3: its parity is row 0 of owner 8
	// stripe 4: its parity is row 0 of owner 9
	// stripe 5: its parity is row 1 of owner 5
}

// Each machine of this job hosts two owners of a group that may lose one.
func ExampleLayout_Crowded() {
	layout, err := ec.NewLayout(4, 3, 1)
	if err != nil {
		log.Fatal(err)
	}
	_, owners := layout.Crowded(func(owner int) string { return []string{"a", "a", "b", "b"}[owner] })
	fmt.Println(owners)
	// Output: [0 1]
}
