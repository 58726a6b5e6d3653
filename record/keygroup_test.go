package record

import "testing"

// The expected values are those of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
func TestHashAgreesWithKafka(t *testing.T) {
	want := map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	}
	for key, h := range want {
		if got := Hash([]byte(key)); got != uint32(h)&0x7fffffff {
			t.Errorf("Hash(%q) = %d, want %d", key, got, uint32(h)&0x7fffffff)
		}
	}
}

func TestGroupFollowsPartition(t *testing.T) {
	const groups, partitions = 240, 12
	for _, key := range []string{"", "a", "page-17", "\x00\x00\x00\x00\x00\x00\x00\x07"} {
		if got := int(GroupOf([]byte(key), groups)) % partitions; got != int(Hash([]byte(key))%partitions) {
			t.Errorf("key %q: group mod %d = %d, partition is %d", key, partitions, got, Hash([]byte(key))%partitions)
		}
	}
}
