// Package kafkatest gives tests a Kafka: the real broker, run by tests/broker/kafka.sh, or kfake within the process.
//
// Both come as an Endpoint, which creates topics, writes plain and transactional records and reads what is committed, so that
// one test body runs against either. It speaks to the broker through franz-go, and not through the client that Weir is
// built on: a fault of that client must not hide in the tests of it.
//
//	func TestIt(t *testing.T) {
//		k := kafkatest.Start(t, kafkatest.Nodes(3))     // or kafkatest.Fake(t)
//		in := k.CreateTopic("in", 6)
//		k.Produce(in, kafkatest.Record{Partition: 2, Value: []byte("x")})
//		k.Kill(k.Leader(in, 2))
//		…
//	}
//
// # Who ends the brokers
//
// The tests of one package share a cluster for each set of options, because a start takes seconds. It ends with the
// process of the tests, however that ends: a guard process holds the other end of a pipe and wipes the cluster when the
// pipe breaks. WEIR_TEST_CLUSTERS names a folder where clusters started with kafka.sh are kept running between runs, as
// NAME/ with the name that Nodes gives (nodes-1, nodes-3); Start uses those, with no guard, where no other option is asked for.
package kafkatest
