package control

import "slices"

// maxVoters bounds the members that agree on the log.
const maxVoters = 5

// chooseVoters returns the members that vote, ascending: the first that live, an odd number,
// since an even one survives no more losses than the odd one below it. The leader is always
// among them, and the member fixed, unless that is None.
func chooseVoters(members []Member, leader, fixed int) []int {
	var living []int
	for n := range members {
		switch {
		case members[n].Lost:
		case n == leader:
			living = slices.Insert(living, 0, n)
		default:
			living = append(living, n)
		}
	}
	if fixed != None {
		living = slices.DeleteFunc(living, func(n int) bool { return n == fixed })
		living = slices.Insert(living, 0, fixed)
	}
	voters := living[:min(maxVoters, (len(living)+1)/2*2-1)]
	slices.Sort(voters)
	return voters
}

// IsMajority reports whether more than half of the voters are connected.
func IsMajority(voters []Member, connected func(number int) bool) bool {
	n := 0
	for _, v := range voters {
		if connected(v.Number) {
			n++
		}
	}
	return n > len(voters)/2
}
