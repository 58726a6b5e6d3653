package kafka

import "github.com/IBM/sarama"

// Codec is the compression of record batches. The name lets those who only pass it on do without the client library.
type Codec = sarama.CompressionCodec
