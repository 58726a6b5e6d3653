// Package nearest finds the known name that a mistyped one was most likely meant to be.
package nearest

import "strings"

// Match returns the known name nearest to name, or "" when none is near enough to be meant.
func Match(name string, known []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		best = extended(name, known)
	}
	return best
}

// extended returns the known name that name extends or shortens.
func extended(name string, known []string) string {
	const enough = 2 // characters in common that tell something
	for _, k := range known {
		if min(len(name), len(k)) >= enough && (strings.HasPrefix(name, k) || strings.HasPrefix(k, name)) {
			return k
		}
	}
	return ""
}

// Hint returns ", did you mean x?" for the nearest known name, or "".
func Hint(name string, known []string) string {
	if m := Match(name, known); m != "" {
		return ", did you mean " + m + "?"
	}
	return ""
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours between a and b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
