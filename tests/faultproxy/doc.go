// Package faultproxy stands between a Kafka client and one broker and does what networks do: it delays, swallows one direction,
// resets connections, and loses a request, half of it, or its answer.
//
// It reads the frames of Kafka's protocol (a length, then for a request its kind and version), so that a fault can hit a
// chosen kind of request at a chosen moment: the answer of an EndTxn that the broker has carried out, say. It does not look
// into TLS.
//
// A client goes where the brokers' metadata sends it. So each broker needs a listener that advertises the proxy's address:
// kafkatest.Proxied sets that up.
package faultproxy
