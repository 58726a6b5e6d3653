// Package kafka is the client side of a Kafka cluster that the source and the sink share: settings, connections by broker
// and purpose, metadata, coordinator look-up, and the classes of error codes.
//
// It uses sarama as a wire layer only. sarama's own client is not used: its look-ups sleep and retry inside, and answer
// from a cache that outlives brokers. Retrying is left to the callers, who know what may wait.
package kafka
