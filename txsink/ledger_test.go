package txsink

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
)

func sample() Witness {
	return Witness{
		Version: ledgerVersion, Job: "j", Checkpoint: 7, Attempt: 2,
		Identity: record.Identity{TransactionalID: "j-0", ProducerID: 5, Epoch: 3},
		Manifest: record.Blob{Name: "chk-7", Size: 10, SHA256: "00"},
	}
}

func TestAWitnessOfAnotherFormIsRefused(t *testing.T) {
	good, err := encodeWitness(sample())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeWitness(good); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"newer":         strings.Replace(string(good), `"version":1`, `"version":2`, 1),
		"unknown field": strings.Replace(string(good), `"job"`, `"more":1,"job"`, 1),
		"cut":           string(good[:len(good)/2]),
		"trailing":      string(good) + "{}",
		"no checkpoint": strings.Replace(string(good), `"checkpoint":7`, `"checkpoint":0`, 1),
		"no manifest":   strings.Replace(string(good), `"chk-7"`, `""`, 1),
	} {
		if w, err := decodeWitness([]byte(bad)); err == nil {
			t.Errorf("%s: read as %+v", name, w)
		}
	}
}

// FuzzWitness: what is accepted is written again as it was understood.
func FuzzWitness(f *testing.F) {
	good, err := encodeWitness(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		w, err := decodeWitness(value)
		if err != nil {
			return
		}
		once, err := encodeWitness(w)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeWitness(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		twice, err := encodeWitness(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
	})
}
