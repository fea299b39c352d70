package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxHosts is the maximum number of hosts in a hostlist, Slurm's own limit.
	maxHosts = 65536
	// maxDigits is the maximum length of a number in a host's name, so that it fits in an int64.
	maxDigits = 18
)

// Expand lists the hosts of a hostlist, in order, as scontrol show hostnames does:
// n[01-03,7]-ib,login[1-2]x[3-4] is n01-ib, n02-ib, n03-ib, n7-ib, login1x3, login1x4,
// login2x3, login2x4. The width of a range is that of its first number. The empty list has no
// hosts. It returns an error for a malformed list, or one of more than 65,536 hosts.
func Expand(list string) (hosts []string, err error) {
	if list == "" {
		return nil, nil
	}
	for rest, more := list, true; more; {
		var element string
		element, rest, more = cutElement(rest)
		names, err := expandElement(element, maxHosts-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("hostlist %.80q: %w", list, err)
		}
		hosts = append(hosts, names...)
	}
	return hosts, nil
}

// cutElement splits a list at its first comma outside of brackets.
func cutElement(list string) (element, rest string, more bool) {
	inside := false
	for i := range len(list) {
		switch list[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ',':
			if !inside {
				return list[:i], list[i+1:], true
			}
		}
	}
	return list, "", false
}

// expandElement lists the hosts of one element, at most room.
func expandElement(element string, room int) ([]string, error) {
	if element == "" {
		return nil, fmt.Errorf("a name between two commas is missing")
	}
	names := []string{""}
	for rest := element; rest != ""; {
		text, after, found := strings.Cut(rest, "[")
		if i := strings.IndexFunc(text, func(r rune) bool { return r == ']' || r <= ' ' }); i >= 0 {
			return nil, fmt.Errorf("%q has a stray %q", element, text[i:i+1])
		}
		parts := []string{""}
		rest = ""
		if found {
			numbers, after, closed := strings.Cut(after, "]")
			if !closed {
				return nil, fmt.Errorf("%q has a [ without ]", element)
			}
			var err error
			if parts, err = expandNumbers(numbers, room); err != nil {
				return nil, err
			}
			rest = after
		}
		if len(names)*len(parts) > room {
			return nil, errTooMany
		}
		next := make([]string, 0, len(names)*len(parts))
		for _, name := range names {
			for _, part := range parts {
				next = append(next, name+text+part)
			}
		}
		names = next
	}
	if len(names) > room {
		return nil, errTooMany
	}
	return names, nil
}

var errTooMany = fmt.Errorf("more than %d hosts", maxHosts)

// expandNumbers lists the numbers between brackets: 01-03,7.
func expandNumbers(numbers string, room int) (parts []string, err error) {
	for _, span := range strings.Split(numbers, ",") {
		low, high, isRange := strings.Cut(span, "-")
		if !isRange {
			high = low
		}
		from, ok1 := number(low)
		to, ok2 := number(high)
		if !ok1 || !ok2 || from > to {
			return nil, fmt.Errorf("[%s]: %q is neither a number nor a range", numbers, span)
		}
		if to-from >= int64(room-len(parts)) {
			return nil, errTooMany
		}
		for n := from; n <= to; n++ {
			parts = append(parts, padded(n, len(low)))
		}
	}
	return parts, nil
}

// number parses decimal digits.
func number(s string) (n int64, ok bool) {
	if s == "" || len(s) > maxDigits || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func padded(n int64, width int) string { return fmt.Sprintf("%0*d", width, n) }

// Compress returns hosts as a hostlist, in their order, as scontrol show hostlist does: neighbours
// whose names differ only in their last number share brackets. (Slurm itself does so only if the
// number ends the name, since it accepts no text after brackets.)
func Compress(hosts []string) string {
	var list strings.Builder
	for i := 0; i < len(hosts); {
		if i > 0 {
			list.WriteByte(',')
		}
		before, digits, after := lastNumber(hosts[i])
		group := []string{digits}
		for i++; i < len(hosts) && digits != ""; i++ {
			b, d, a := lastNumber(hosts[i])
			if d == "" || b != before || a != after {
				break
			}
			group = append(group, d)
		}
		if len(group) > 1 {
			digits = "[" + ranges(group) + "]"
		}
		list.WriteString(before + digits + after)
	}
	return list.String()
}

// lastNumber splits a name at its last number, which is empty if there is none.
func lastNumber(name string) (before, digits, after string) {
	end := strings.LastIndexAny(name, "0123456789") + 1
	start := end
	for start > 0 && end-start < maxDigits && name[start-1] >= '0' && name[start-1] <= '9' {
		start--
	}
	return name[:start], name[start:end], name[end:]
}

// ranges returns numbers in the form between brackets.
func ranges(numbers []string) string {
	var spans []string
	for i := 0; i < len(numbers); {
		low, last := numbers[i], numbers[i]
		n, _ := number(low)
		for i++; i < len(numbers) && numbers[i] == padded(n+1, len(low)); i++ {
			n, last = n+1, numbers[i]
		}
		if last != low {
			low += "-" + last
		}
		spans = append(spans, low)
	}
	return strings.Join(spans, ",")
}
