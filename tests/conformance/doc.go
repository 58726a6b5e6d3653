// Package conformance holds a test that runs scripted transactions on Apache Kafka and on kfake, with the same raw requests
// that Weir sends, and says where the two differ.
//
// kfake is what the fast tests and the demo run on. It is kinder than Kafka in ways that matter to a transactional writer,
// so the differences are a table that is kept, each row with what either answers: a row that no longer holds fails the
// test. A test of something in that table must not rest on kfake alone.
package conformance
