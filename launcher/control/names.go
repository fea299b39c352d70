package control

import (
	"fmt"
	"strings"
)

// maxNamed bounds the numbers that a message lists.
const maxNamed = 8

// listOf is "rank 3" or "ranks 3, 4, 7".
func listOf(one, many string, numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("%s %d", one, numbers[0])
	}
	var list []string
	for _, r := range numbers[:min(len(numbers), maxNamed)] {
		list = append(list, fmt.Sprint(r))
	}
	if len(numbers) > maxNamed {
		list = append(list, fmt.Sprintf("... %d in all", len(numbers)))
	}
	return many + " " + strings.Join(list, ", ")
}

// onNode is "node n3: ", or "" if the node's name is unknown.
func onNode(node string) string {
	if node == "" {
		return ""
	}
	return "node " + node + ": "
}

// countSpares is "no spare", "1 spare" or "2 spares".
func countSpares(n int) string {
	switch n {
	case 0:
		return "no spare"
	case 1:
		return "1 spare"
	}
	return fmt.Sprintf("%d spares", n)
}
