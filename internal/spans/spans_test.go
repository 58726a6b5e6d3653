package spans

import "testing"

func TestText(t *testing.T) {
	for want, list := range map[string][]int{
		"": nil, "3": {3}, "0-1": {1, 0}, "0-2 5": {5, 2, 0, 1}, "1 3 5-6": {1, 3, 5, 6},
	} {
		if got := Text(list); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
}
