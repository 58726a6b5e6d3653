//go:build integration

package kafkatest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestSecureListeners(t *testing.T) {
	s := Secure(t)
	topic := s.CreateTopic("secure", 1)
	trust := func(ca string) *tls.Config { return &tls.Config{RootCAs: pool(t, ca), ServerName: "localhost"} }
	withCert := trust(s.CA)
	pair, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	withCert.Certificates = []tls.Certificate{pair}
	login := func(user, password string) sasl.Mechanism {
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}

	for name, c := range map[string]struct {
		at   []string
		tls  *tls.Config
		sasl sasl.Mechanism
		ok   bool
	}{
		"TLS":                      {s.TLS, trust(s.CA), nil, true},
		"TLS, wrong CA":            {s.TLS, trust(s.OtherCA), nil, false},
		"mutual TLS":               {s.MutualTLS, withCert, nil, true},
		"mutual TLS, no cert":      {s.MutualTLS, trust(s.CA), nil, false},
		"PLAIN":                    {s.Login, nil, login(User, Password), true},
		"PLAIN over TLS":           {s.LoginTLS, trust(s.CA), login(User, Password), true},
		"PLAIN, wrong password":    {s.Login, nil, login(User, "guess"), false},
		"SCRAM-SHA-256":            {s.Login, nil, scram.Auth{User: User, Pass: Password}.AsSha256Mechanism(), true},
		"SCRAM-SHA-512":            {s.LoginTLS, trust(s.CA), scram.Auth{User: User, Pass: Password}.AsSha512Mechanism(), true},
		"SCRAM, wrong password":    {s.Login, nil, scram.Auth{User: User, Pass: "guess"}.AsSha256Mechanism(), false},
		"OAUTHBEARER":              {s.Login, nil, oauth.Auth{Token: token(t, s.Tokens)}.AsMechanism(), true},
		"OAUTHBEARER, not a token": {s.Login, nil, oauth.Auth{Token: "guess"}.AsMechanism(), false},
		"guest":                    {s.Login, nil, login(Guest, Password), false},
	} {
		if got := describes(t, c.at, c.tls, c.sasl, topic); (got == nil) != c.ok {
			t.Errorf("%s: want success %v, got %v", name, c.ok, got)
		}
	}
	s.Allow(Guest, kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationDescribe)
	s.Until("the guest's right", func(context.Context) error { return describes(t, s.Login, nil, login(Guest, Password), topic) })
}

// describes asks for the metadata of a topic.
func describes(t *testing.T, at []string, conf *tls.Config, mechanism sasl.Mechanism, topic string) error {
	opts := []kgo.Opt{kgo.SeedBrokers(at...), kgo.RequestRetries(0)}
	if conf != nil {
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, one := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

func pool(t *testing.T, file string) *x509.CertPool {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(b)
	return p
}

func token(t *testing.T, s TokenServer) string {
	resp, err := http.PostForm(s.URL, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {s.ClientID}, "client_secret": {s.ClientSecret},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.AccessToken
}
