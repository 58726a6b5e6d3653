package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
)

// Options say how to reach a cluster.
type Options struct {
	// Brokers are the bootstrap addresses, host:port.
	Brokers []string
	// ClientID is what the brokers' logs and quotas see.
	ClientID string
	TLS      TLS
	SASL     SASL
	// DialTimeout bounds the opening of a connection; 2 s where it is zero.
	DialTimeout time.Duration
	// ControlTimeout bounds a control or transaction request; 5 s where it is zero. A stopped broker accepts and never
	// answers, so this is also the time it takes to notice one.
	ControlTimeout time.Duration
	// RequestTimeout bounds a produce request on the broker, and fetches on top of their wait; 10 s where it is zero.
	RequestTimeout time.Duration
}

// TLS says how connections are secured. Its zero value is plaintext.
type TLS struct {
	Enable bool
	// CA, Cert and Key are files in PEM. Without CA the system's authorities count; Cert and Key are for mTLS.
	CA, Cert, Key string
	// ServerName overrides the name that the broker's certificate must carry.
	ServerName string
}

// SASL says how to authenticate. Its zero value is no authentication.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	Mechanism          string
	Username, Password string
	// TokenURL, with Username as client id and Password as client secret, is where OAUTHBEARER gets its tokens.
	TokenURL string
	Scopes   []string
}

// String does not show the password.
func (s SASL) String() string {
	if s.Mechanism == "" {
		return "none"
	}
	return fmt.Sprintf("%s as %s", s.Mechanism, s.Username)
}

// GoString does not show the password.
func (s SASL) GoString() string { return s.String() }

// LogValue does not show the password.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText does not show the password, in JSON either.
func (s SASL) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var errs []error
	if len(o.Brokers) == 0 {
		errs = append(errs, errors.New("no bootstrap brokers"))
	}
	if (o.TLS.Cert == "") != (o.TLS.Key == "") {
		errs = append(errs, errors.New("a client certificate and its key belong together: give both or none"))
	}
	switch o.SASL.Mechanism {
	case "", sarama.SASLTypePlaintext, sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512:
	case sarama.SASLTypeOAuth:
		if o.SASL.TokenURL == "" {
			errs = append(errs, errors.New("OAUTHBEARER needs a token URL"))
		}
	default:
		errs = append(errs, fmt.Errorf("unknown SASL mechanism %q: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER", o.SASL.Mechanism))
	}
	return errors.Join(errs...)
}

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Defaults of the timeouts.
const (
	defaultDialTimeout    = 2 * time.Second
	defaultControlTimeout = 5 * time.Second
	defaultRequestTimeout = 10 * time.Second
	// produceSlack is what a produce connection waits beyond the request's own timeout, for the verification of a
	// transaction's first write, which that timeout does not bound.
	produceSlack = 5 * time.Second
)

// sarama translates the options for connections of one purpose.
func (o Options) sarama(p Purpose, sasl saslSettings) *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V4_0_0_0
	cfg.MetricRegistry = noMetrics{metrics.NewRegistry()}
	if o.ClientID != "" {
		cfg.ClientID = o.ClientID
	}
	cfg.Net.DialTimeout = or(o.DialTimeout, defaultDialTimeout)
	cfg.Net.ReadTimeout = or(o.ControlTimeout, defaultControlTimeout)
	cfg.Net.WriteTimeout = cfg.Net.ReadTimeout
	cfg.Net.MaxOpenRequests = 5
	switch p {
	case Fetch:
		cfg.Net.ReadTimeout = or(o.RequestTimeout, defaultRequestTimeout)
	case Produce:
		cfg.Net.ReadTimeout = or(o.RequestTimeout, defaultRequestTimeout) + produceSlack
	}
	sasl(cfg)
	return cfg
}

// noMetrics keeps sarama from measuring: nobody reads its figures, and its meters share a goroutine that never ends.
type noMetrics struct{ metrics.Registry }

// GetOrRegister gives a metric that counts nothing for each kind that sarama asks for.
func (noMetrics) GetOrRegister(_ string, kind any) any {
	switch kind.(type) {
	case func() metrics.Meter:
		return metrics.NilMeter{}
	case func() metrics.Histogram:
		return metrics.NilHistogram{}
	case func() metrics.Counter:
		return metrics.NilCounter{}
	}
	return kind
}

// config returns the settings for a connection to host.
func (t TLS) config(host string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if t.ServerName != "" {
		conf.ServerName = t.ServerName
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority (kafka.tls.ca): %w", err)
		}
		if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority %s (kafka.tls.ca) holds no certificate in PEM", t.CA)
		}
	}
	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate (kafka.tls.cert and key): %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// LimitBatches bounds what one compressed record batch may grow to, in bytes; without it a batch of a megabyte can become a
// gigabyte. sarama has one limit for the whole process, so the process sets it once, at its start and before Open.
func LimitBatches(bytes int32) { sarama.MaxDecompressedBatchSize = bytes }
