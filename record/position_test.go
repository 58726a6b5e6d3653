package record

import (
	"encoding/json"
	"testing"
)

func TestTopicIDText(t *testing.T) {
	want := Position{Source: "in", Topic: "t", TopicID: TopicID{0xab, 15: 0xcd}, Partition: 3, Offset: 9, LeaderEpoch: -1}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Position
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Fatalf("%s read back as %+v, %v", text, got, err)
	}
	for _, bad := range []string{"", "ab", "zz000000000000000000000000000000", "ab0000000000000000000000000000cd00"} {
		if err := new(TopicID).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("topic id %q was accepted", bad)
		}
	}
}

// FuzzPosition reads anything as a position: what is accepted must come out of what is written again.
func FuzzPosition(f *testing.F) {
	f.Add([]byte(`{"source":"in","topic":"t","topic_id":"ab0000000000000000000000000000cd","partition":3,"offset":9,"leader_epoch":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p, again Position
		if json.Unmarshal(text, &p) != nil {
			return
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", p, err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again != p {
			t.Fatalf("%+v read back as %+v, %v", p, again, err)
		}
	})
}
