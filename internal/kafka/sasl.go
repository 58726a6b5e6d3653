package kafka

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// saslSettings puts a login into the settings of connections. All connections share it, and so the token of OAUTHBEARER.
type saslSettings func(*sarama.Config)

func (s SASL) settings() saslSettings {
	if s.Mechanism == "" {
		return func(*sarama.Config) {}
	}
	var provider sarama.AccessTokenProvider
	if s.Mechanism == sarama.SASLTypeOAuth {
		provider = s.tokens()
	}
	return func(cfg *sarama.Config) {
		cfg.Net.SASL.Enable = true
		cfg.Net.SASL.Mechanism = sarama.SASLMechanism(s.Mechanism)
		cfg.Net.SASL.Version = sarama.SASLHandshakeV1
		cfg.Net.SASL.User, cfg.Net.SASL.Password = s.Username, s.Password
		cfg.Net.SASL.TokenProvider = provider
		switch s.Mechanism {
		case sarama.SASLTypeSCRAMSHA256:
			cfg.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA256} }
		case sarama.SASLTypeSCRAMSHA512:
			cfg.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA512} }
		}
	}
}

// scramClient is one SCRAM conversation.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

// Begin implements sarama.SCRAMClient.
func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return fmt.Errorf("SCRAM credentials of %s: %w", user, err)
	}
	c.conversation = client.NewConversation()
	return nil
}

// Step implements sarama.SCRAMClient.
func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

// Done implements sarama.SCRAMClient.
func (c *scramClient) Done() bool { return c.conversation.Done() }

// tokens gets OAuth tokens by the client-credentials flow, each one kept until it is about to expire.
type tokens struct {
	url    string
	source oauth2.TokenSource
}

const (
	tokenTimeout = 5 * time.Second
	// tokenMargin is how long before its end a token is replaced: a connection that begins with it must still get through.
	tokenMargin = 30 * time.Second
)

func (s SASL) tokens() tokens {
	cfg := clientcredentials.Config{ClientID: s.Username, ClientSecret: s.Password, TokenURL: s.TokenURL, Scopes: s.Scopes}
	client := &http.Client{Timeout: tokenTimeout, Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, client)
	fetch := tokenFetch(func() (*oauth2.Token, error) { return cfg.Token(ctx) })
	return tokens{url: s.TokenURL, source: oauth2.ReuseTokenSourceWithExpiry(nil, fetch, tokenMargin)}
}

// tokenFetch is an oauth2.TokenSource that asks each time.
type tokenFetch func() (*oauth2.Token, error)

// Token implements oauth2.TokenSource.
func (f tokenFetch) Token() (*oauth2.Token, error) { return f() }

// Token implements sarama.AccessTokenProvider. It is asked at each connection and re-authentication.
func (t tokens) Token() (*sarama.AccessToken, error) {
	token, err := t.source.Token()
	if err != nil {
		return nil, fmt.Errorf("get an access token from %s: %w", t.url, err)
	}
	return &sarama.AccessToken{Token: token.AccessToken}, nil
}
