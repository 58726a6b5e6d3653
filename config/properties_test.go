package config

import (
	"strings"
	"testing"
	"time"
)

// withProperties is a file with a kafka section.
func withProperties(kafka string) []byte {
	return []byte("version: 1\njob: j\nsources: {in: {topic: a}}\nsinks: {out: {from: in, topic: b}}\nkafka:\n" + kafka)
}

func TestKafkasOwnNamesAreTaken(t *testing.T) {
	both := certificate(t)
	c, err := Parse("p.yaml", withProperties(strings.ReplaceAll(`  fetch_bytes: 2MiB
  properties:
    bootstrap.servers: a:1,b:2
    request.timeout.ms: 7000
    security.protocol: SSL
    ssl.keystore.location: both.pem
    compression.type: zstd
`, "both.pem", both)), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := c.Kafka
	if strings.Join(k.Brokers, " ") != "a:1 b:2" || k.RequestTimeout != 7*time.Second || !k.TLS.Enable || k.TLS.Cert != both ||
		k.TLS.Key != both || k.Compression != "zstd" || k.FetchBytes != 2<<20 {
		t.Errorf("%+v", k)
	}
	if got := c.Origin("kafka.request_timeout").String(); got != "file p.yaml:9" {
		t.Errorf("the request timeout comes from %s", got)
	}
	t.Setenv("WEIR__KAFKA__REQUEST_TIMEOUT", "9s")
	if c, err = Parse("p.yaml", withProperties("  properties: {request.timeout.ms: 7000}\n"), nil); err != nil || c.Kafka.RequestTimeout != 9*time.Second {
		t.Errorf("the environment comes before the file: %v, %v", c.Kafka.RequestTimeout, err)
	}
}

func TestEveryPropertyStandsForAKey(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Path] = true
	}
	for _, p := range kafkaProperties() {
		if (p.reason == "") != (len(p.keys) > 0) {
			t.Errorf("%s is neither taken nor refused, or both", p.name)
		}
		for _, k := range p.keys {
			if !known[k] {
				t.Errorf("%s stands for %s, which is no key", p.name, k)
			}
		}
	}
}

func TestWrongPropertiesAreRefusedWithTheirLines(t *testing.T) {
	_, err := Parse("p.yaml", withProperties(`  properties:
    request.timeout.mss: 7000
    isolation.level: read_uncommitted
    compression.type: zstd
    fetch.max.wait.ms: soon
    batch.size: 1
    security.protocol: TLS
  compression: gzip
`), nil)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"p.yaml:7: kafka.properties.request.timeout.mss: unknown key, did you mean request.timeout.ms?",
		"p.yaml:8: kafka.properties.isolation.level: is not to be set: aborted records are never read",
		"p.yaml:9: kafka.properties.compression.type: is given beside kafka.compression",
		`p.yaml:10: kafka.properties.fetch.max.wait.ms: "soon" is no number of milliseconds`,
		"p.yaml:11: kafka.batch_bytes: 1 is too little",
		`p.yaml:12: kafka.properties.security.protocol: "TLS" is not known`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told in:\n%v", want, err)
		}
	}
}
