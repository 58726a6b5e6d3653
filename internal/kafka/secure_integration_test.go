//go:build integration

package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/internal/kafka"
	"github.com/weirstream/weir/tests/kafkatest"
)

// TestLoginsAndCertificates has each way to connect, and what a person is told when it is the wrong one.
func TestLoginsAndCertificates(t *testing.T) {
	s := kafkatest.Secure(t)
	topic := s.CreateTopic("secure", 1)
	trust := kafka.TLS{Enable: true, CA: s.CA, ServerName: "localhost"}
	mutual := trust
	mutual.Cert, mutual.Key = s.ClientCert, s.ClientKey
	distrust := trust
	distrust.CA = s.OtherCA
	wrongName := trust
	wrongName.ServerName = "elsewhere.example"
	login := func(mechanism, password string) kafka.SASL {
		return kafka.SASL{Mechanism: mechanism, Username: kafkatest.User, Password: password}
	}
	guest := kafka.SASL{Mechanism: "PLAIN", Username: kafkatest.Guest, Password: kafkatest.Password}
	oauth := kafka.SASL{Mechanism: "OAUTHBEARER", Username: s.Tokens.ClientID, Password: s.Tokens.ClientSecret, TokenURL: s.Tokens.URL}
	badSecret := oauth
	badSecret.Password = "guess"

	for name, c := range map[string]struct {
		at   []string
		tls  kafka.TLS
		sasl kafka.SASL
		// want is part of the line for a person, empty where the connection is good.
		want string
	}{
		"TLS":                       {s.TLS, trust, kafka.SASL{}, ""},
		"mutual TLS":                {s.MutualTLS, mutual, kafka.SASL{}, ""},
		"PLAIN":                     {s.Login, kafka.TLS{}, login("PLAIN", kafkatest.Password), ""},
		"PLAIN over TLS":            {s.LoginTLS, trust, login("PLAIN", kafkatest.Password), ""},
		"SCRAM-SHA-256":             {s.Login, kafka.TLS{}, login("SCRAM-SHA-256", kafkatest.Password), ""},
		"SCRAM-SHA-512 over TLS":    {s.LoginTLS, trust, login("SCRAM-SHA-512", kafkatest.Password), ""},
		"OAUTHBEARER":               {s.Login, kafka.TLS{}, oauth, ""},
		"wrong CA":                  {s.TLS, distrust, kafka.SASL{}, "kafka.tls.ca"},
		"wrong name":                {s.TLS, wrongName, kafka.SASL{}, "kafka.tls.server_name"},
		"no client certificate":     {s.MutualTLS, trust, kafka.SASL{}, "kafka.tls.cert"},
		"wrong PLAIN password":      {s.Login, kafka.TLS{}, login("PLAIN", "guess"), "refused the user name"},
		"wrong SCRAM-256 password":  {s.Login, kafka.TLS{}, login("SCRAM-SHA-256", "guess"), "refused the user name"},
		"wrong SCRAM-512 password":  {s.LoginTLS, trust, login("SCRAM-SHA-512", "guess"), "refused the user name"},
		"wrong client secret":       {s.Login, kafka.TLS{}, badSecret, "token endpoint refused"},
		"TLS to a plain port":       {s.Brokers(), trust, kafka.SASL{}, "does not speak TLS"},
		"plain to a TLS port":       {s.TLS, kafka.TLS{}, kafka.SASL{}, "may expect TLS"},
		"no login on a login port":  {s.Login, kafka.TLS{}, kafka.SASL{}, "a login"},
		"login on a plain port":     {s.Brokers(), kafka.TLS{}, login("PLAIN", kafkatest.Password), "no login on this port"},
		"no right to see the topic": {s.Login, kafka.TLS{}, guest, "grant this user"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			cluster, err := kafka.Open(ctx, kafka.Options{Brokers: c.at, TLS: c.tls, SASL: c.sasl}, topic)
			if err == nil {
				cluster.Close()
			}
			line := kafka.Describe(err)
			if (err == nil) != (c.want == "") || !strings.Contains(line, c.want) || strings.Contains(line, "\n") {
				t.Errorf("want a line with %q, got %q from %v", c.want, line, err)
			}
			if strings.Contains(line, kafkatest.Password) {
				t.Errorf("the line shows the password: %s", line)
			}
		})
	}
	s.Allow(kafkatest.Guest, kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead)
	s.Until("the guest's right", func(ctx context.Context) error {
		c, err := kafka.Open(ctx, kafka.Options{Brokers: s.Login, SASL: guest}, topic)
		if err == nil {
			c.Close()
		}
		return err
	})
}
