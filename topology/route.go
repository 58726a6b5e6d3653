package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Partitions gives the number of partitions of each topic of a job.
type Partitions map[string]int

const (
	minGroups = 128
	maxGroups = 32768
)

// layout is how key groups and partitions are spread over the subtasks.
type layout struct {
	groups, subtasks int
	// common divides the partition counts of the topics that the main route follows: the groups that are equal modulo
	// common belong to one subtask.
	common int
}

// newLayout chooses the layout for the given partition counts.
func newLayout(inputs, outputs []int, subtasks int) (layout, error) {
	groups := multiple(slices.Concat(inputs, outputs))
	if groups > maxGroups {
		// Keys of the inputs are then spread without regard to input partitions, which costs exchange and nothing else.
		groups, inputs = multiple(outputs), nil
	}
	if groups > maxGroups {
		return layout{}, fmt.Errorf("the partition counts %s of the output topics have no common multiple up to %d, "+
			"give the topics counts that divide each other", list(outputs), maxGroups)
	}
	return spread(groups, inputs, outputs, subtasks), nil
}

// spread is the layout with the given number of key groups.
func spread(groups int, inputs, outputs []int, subtasks int) layout {
	l := layout{groups: groups, subtasks: subtasks, common: groups}
	for _, n := range slices.Concat(outputs, inputs) {
		if g := gcd(l.common, n); g >= subtasks {
			l.common = g
		}
	}
	return l
}

// multiple is the smallest common multiple of counts that is at least minGroups, or something above maxGroups.
func multiple(counts []int) int {
	m := 1
	for _, n := range counts {
		if m = m / gcd(m, n) * n; m > maxGroups {
			return m
		}
	}
	return (minGroups + m - 1) / m * m
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func list(counts []int) string {
	var s []string
	for _, n := range counts {
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, ", ")
}

// follows says whether partition g mod n of each group g lies with the owner that the main route gives g.
func (l layout) follows(n int) bool { return n%l.common == 0 }

// owner is the subtask of a group, or of a partition of a topic that the main route follows.
func (l layout) owner(group int) int32 { return int32(group % l.common * l.subtasks / l.common) }

// main is the route of keyed state, and of the outputs that it can follow.
func (l layout) main() []int32 {
	route := make([]int32, l.groups)
	for g := range route {
		route[g] = l.owner(g)
	}
	return route
}

// own is the route of an output of n partitions that the main route cannot follow.
func (l layout) own(n int) []int32 {
	route := make([]int32, l.groups)
	for g := range route {
		route[g] = int32(g % n % l.subtasks)
	}
	return route
}

// readers gives the subtask that reads each of n partitions of an input: the owner of its keys where producers partition
// as Kafka's Java client does.
func (l layout) readers(n int) []int32 {
	readers := make([]int32, n)
	for p := range readers {
		if l.follows(n) {
			readers[p] = l.owner(p)
		} else {
			readers[p] = int32(p % l.subtasks)
		}
	}
	return readers
}
