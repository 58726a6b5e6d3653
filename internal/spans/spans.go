// Package spans writes lists of numbers for people.
package spans

import (
	"fmt"
	"slices"
	"strings"
)

// Text writes 2, 0, 1, 5 as "0-2 5", and nothing as "".
func Text[N ~int | ~int32](numbers []N) string {
	list := slices.Sorted(slices.Values(numbers))
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(list[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", list[i], list[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, " ")
}
