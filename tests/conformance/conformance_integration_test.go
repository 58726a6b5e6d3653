//go:build integration

package conformance

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/weirstream/weir/tests/kafkatest"
)

// TestConformance prints the table that it checks.
func TestConformance(t *testing.T) {
	kafka, fake := kafkatest.Start(t, kafkatest.Nodes(3)), kafkatest.Fake(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\tApache Kafka\tkfake\t")
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			onKafka := c.run(newScript(t, kafka.Endpoint, c.partitions))
			onFake := c.run(newScript(t, fake.Endpoint, c.partitions))
			differ := ""
			if onKafka != onFake {
				differ = "differ"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.name, onKafka, onFake, differ)
			if onKafka != c.kafka || onFake != c.fake {
				t.Errorf("Kafka: %s; kfake: %s; the table says %s and %s", onKafka, onFake, c.kafka, c.fake)
			}
		})
	}
	w.Flush()
	t.Logf("\n%s", &table)
}
