package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
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
func (s SASL) String() string { return fmt.Sprintf("%s as %s", s.Mechanism, s.Username) }

// GoString does not show the password.
func (s SASL) GoString() string { return s.String() }

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

// produceSlack is what a produce connection waits beyond the request's own timeout, for the verification of a
// transaction's first write, which that timeout does not bound.
const produceSlack = 5 * time.Second

// sarama translates the options for a connection of one purpose.
func (o Options) sarama(p Purpose) (*sarama.Config, error) {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V4_0_0_0
	if o.ClientID != "" {
		cfg.ClientID = o.ClientID
	}
	cfg.Net.DialTimeout = or(o.DialTimeout, 2*time.Second)
	cfg.Net.ReadTimeout = or(o.ControlTimeout, 5*time.Second)
	cfg.Net.WriteTimeout = cfg.Net.ReadTimeout
	cfg.Net.MaxOpenRequests = 5
	switch p {
	case Fetch:
		cfg.Net.ReadTimeout = or(o.RequestTimeout, 10*time.Second)
	case Produce:
		cfg.Net.ReadTimeout = or(o.RequestTimeout, 10*time.Second) + produceSlack
	}
	if err := o.TLS.apply(cfg); err != nil {
		return nil, err
	}
	return cfg, o.SASL.apply(cfg)
}

func (t TLS) apply(cfg *sarama.Config) error {
	if !t.Enable {
		return nil
	}
	cfg.Net.TLS.Enable = true
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	cfg.Net.TLS.Config = conf
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return fmt.Errorf("read the certificate authority: %w", err)
		}
		if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("certificate authority %s holds no certificate in PEM", t.CA)
		}
	}
	if t.Cert != "" {
		// Read at each handshake, so that a renewed certificate counts without a restart.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &c, err
		}
		if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
			return fmt.Errorf("read the client certificate: %w", err)
		}
	}
	return nil
}
