package record

import "encoding/binary"

// KeyGroup is the unit in which keyed state is owned and moved: murmur2(key) mod G, where G is chosen once for a job.
type KeyGroup int32

// NoGroup marks a record whose key group is not computed.
const NoGroup KeyGroup = -1

// GroupOf returns the key group of key among groups. With groups a multiple of a topic's partition count n, the result
// mod n is the partition to which Kafka's Java client sends the key.
func GroupOf(key []byte, groups int) KeyGroup {
	return KeyGroup(Hash(key) % uint32(groups))
}

// Hash is the non-negative murmur2 of Kafka's default partitioner
// (org.apache.kafka.common.utils.Utils.murmur2 and toPositive).
func Hash(key []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(key))
	for len(key) >= 4 {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> r
		h = h*m ^ k*m
		key = key[4:]
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2])<<16 | uint32(key[1])<<8 | uint32(key[0])
		h *= m
	case 2:
		h ^= uint32(key[1])<<8 | uint32(key[0])
		h *= m
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h & 0x7fffffff
}
