package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// propertiesPath is the section of settings under the names that Kafka's own clients give them.
const propertiesPath = "kafka.properties"

// kafkaProperty is a setting of Kafka's own clients.
type kafkaProperty struct {
	name string
	// keys are those of Weir that mean the same; a property that has none is refused, because of reason.
	keys   []string
	reason string
	// convert writes the value as our keys want it; nil leaves it as it is.
	convert func(string) (string, error)
}

// kafkaProperties are the settings of consumers and producers that Weir knows (org.apache.kafka.clients.CommonClientConfigs,
// ConsumerConfig, ProducerConfig, of release 4.3). Each that is taken is another name of a key.
func kafkaProperties() []kafkaProperty {
	return []kafkaProperty{
		{name: "bootstrap.servers", keys: []string{"kafka.brokers"}},
		{name: "client.id", keys: []string{"kafka.client_id"}},
		{name: "request.timeout.ms", keys: []string{"kafka.request_timeout"}, convert: milliseconds},
		{name: "socket.connection.setup.timeout.ms", keys: []string{"kafka.dial_timeout"}, convert: milliseconds},
		{name: "metadata.max.age.ms", keys: []string{"kafka.partition_discovery"}, convert: milliseconds},
		{name: "transaction.timeout.ms", keys: []string{"kafka.transaction_timeout"}, convert: milliseconds},
		{name: "fetch.max.wait.ms", keys: []string{"kafka.fetch_wait"}, convert: milliseconds},
		{name: "max.partition.fetch.bytes", keys: []string{"kafka.fetch_bytes"}},
		{name: "batch.size", keys: []string{"kafka.batch_bytes"}},
		{name: "compression.type", keys: []string{"kafka.compression"}},
		{name: "security.protocol", keys: []string{"kafka.tls.enable"}, convert: encrypted},
		{name: "ssl.truststore.location", keys: []string{"kafka.tls.ca"}},
		{name: "ssl.keystore.location", keys: []string{"kafka.tls.cert", "kafka.tls.key"}},
		{name: "sasl.mechanism", keys: []string{"kafka.sasl.mechanism"}},
		{name: "sasl.oauthbearer.token.endpoint.url", keys: []string{"kafka.sasl.token_url"}},

		{name: "acks", reason: "results count once all in-sync replicas have them"},
		{name: "auto.offset.reset", reason: "start of a source says where reading begins, and lost offsets end the job"},
		{name: "enable.auto.commit", reason: "offsets are committed with the results, at each checkpoint"},
		{name: "enable.idempotence", reason: "each batch has a sequence number, and is written once"},
		{name: "group.id", reason: "kafka.group names the group"},
		{name: "isolation.level", reason: "aborted records are never read"},
		{name: "max.in.flight.requests.per.connection", reason: "the order of batches rests on it"},
		{name: "transactional.id", reason: "the ids are made of the job's name"},
		{name: "ssl.truststore.type", reason: "certificates are read as PEM"},
		{name: "ssl.keystore.type", reason: "certificates are read as PEM"},
		{name: "sasl.jaas.config", reason: "kafka.sasl.username and kafka.sasl.password hold what it would"},
	}
}

// milliseconds writes a number of milliseconds as a duration.
func milliseconds(text string) (string, error) {
	for _, r := range text {
		if r < '0' || r > '9' {
			return "", fmt.Errorf("%q is no number of milliseconds", text)
		}
	}
	return text + "ms", nil
}

// encrypted says of a security protocol whether it is one over TLS.
func encrypted(text string) (string, error) {
	switch text {
	case "SSL", "SASL_SSL":
		return "true", nil
	case "PLAINTEXT", "SASL_PLAINTEXT":
		return "false", nil
	}
	return "", fmt.Errorf("%q is not known (expected PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)", text)
}

// properties takes Kafka's own names into the file's layer, as the keys that they stand for. All keys of the file must have
// been taken before.
func (l *layers) properties(n *yaml.Node) {
	known := kafkaProperties()
	var names []string
	for _, p := range known {
		if p.reason == "" {
			names = append(names, p.name)
		}
	}
	for _, e := range l.doc.section(n, propertiesPath) {
		i := slices.IndexFunc(known, func(p kafkaProperty) bool { return p.name == e.name })
		if i < 0 {
			l.doc.unknown(e, propertiesPath, names)
			continue
		}
		l.property(known[i], e)
	}
}

func (l *layers) property(p kafkaProperty, e entry) {
	at := join(propertiesPath, e.name)
	if p.reason != "" {
		l.doc.fault(e.key, at, "is not to be set: %s", p.reason)
		return
	}
	text, ok := l.doc.text(e.value, at)
	if !ok {
		return
	}
	if p.convert != nil {
		var err error
		if text, err = p.convert(text); err != nil {
			l.doc.fault(e.value, at, "%v", err)
			return
		}
	}
	for _, key := range p.keys {
		if l.doc.nodes[key] != nil {
			l.doc.fault(e.key, at, "is given beside %s, expected one of them", key)
			continue
		}
		l.doc.nodes[key], l.doc.lines[key] = e.value, e.key.Line
		l.merge(key, l.asList(key, text))
	}
}

// asList is the entries of a key that holds a list, and the text itself of any other.
func (l *layers) asList(key, text string) any {
	if slices.ContainsFunc(l.keys, func(k Key) bool { return k.Path == key && k.Type == List }) {
		return split(text)
	}
	return text
}

// propertiesReference is their table in the reference.
func propertiesReference() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## `%s`\n\nKafka's own names are taken for these keys; give a setting by one name only. "+
		"They come from the file alone.\n\n| property | key |\n|---|---|\n", propertiesPath)
	for _, p := range kafkaProperties() {
		if p.reason == "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", p.name, words(p.keys))
		}
	}
	b.WriteString("\nThese are refused, since Weir must own them or has another way:\n\n| property | reason |\n|---|---|\n")
	for _, p := range kafkaProperties() {
		if p.reason != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", p.name, p.reason)
		}
	}
	return b.String()
}

// propertiesSchema is their schema.
func propertiesSchema() object {
	s := closed()
	for _, p := range kafkaProperties() {
		if p.reason == "" {
			members(s)[p.name] = object{"type": []string{"string", "number"}, "description": "Another name of " + strings.Join(p.keys, " and ") + "."}
		}
	}
	return s
}
