package nearest

import "testing"

func TestMatch(t *testing.T) {
	known := []string{"brokers", "client_id", "interval", "format", "from"}
	for name, want := range map[string]string{
		"broker": "brokers", "borkers": "brokers", "Brokers": "brokers", "intervall": "interval", "clientid": "client_id",
		"form": "from", "zzz": "", "client": "client_id", "fromage": "from", "": "", "completely_other": "",
	} {
		if got := Match(name, known); got != want {
			t.Errorf("Match(%q) = %q, want %q", name, got, want)
		}
	}
	if got, want := Hint("broker", known), ", did you mean brokers?"; got != want {
		t.Errorf("Hint = %q, want %q", got, want)
	}
}
