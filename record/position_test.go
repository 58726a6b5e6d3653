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
