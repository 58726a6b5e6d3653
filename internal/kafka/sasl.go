package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"golang.org/x/oauth2/clientcredentials"
)

func (s SASL) apply(cfg *sarama.Config) error {
	if s.Mechanism == "" {
		return nil
	}
	cfg.Net.SASL.Enable = true
	cfg.Net.SASL.Mechanism = sarama.SASLMechanism(s.Mechanism)
	cfg.Net.SASL.Version = sarama.SASLHandshakeV1
	cfg.Net.SASL.User, cfg.Net.SASL.Password = s.Username, s.Password
	switch s.Mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		cfg.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA256} }
	case sarama.SASLTypeSCRAMSHA512:
		cfg.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA512} }
	case sarama.SASLTypeOAuth:
		cfg.Net.SASL.TokenProvider = tokens{clientcredentials.Config{
			ClientID: s.Username, ClientSecret: s.Password, TokenURL: s.TokenURL, Scopes: s.Scopes,
		}}
	}
	return nil
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

// tokens gets OAuth tokens by the client-credentials flow.
type tokens struct{ config clientcredentials.Config }

const tokenTimeout = 5 * time.Second

// Token implements sarama.AccessTokenProvider. It is asked at each connection and re-authentication.
func (t tokens) Token() (*sarama.AccessToken, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	defer cancel()
	token, err := t.config.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("get an access token from %s: %w", t.config.TokenURL, err)
	}
	return &sarama.AccessToken{Token: token.AccessToken}, nil
}
