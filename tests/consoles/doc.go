// Package consoles holds the test that Kafka's own command-line tools agree with Weir: the console consumer reads the right
// results, and the consumer-groups tool shows how far the job is.
package consoles
