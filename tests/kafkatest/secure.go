package kafkatest

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SecureCluster is a cluster of its own that also listens with TLS and with logins, and checks rights. Its plain listener stays
// open with every right.
type SecureCluster struct {
	*Cluster
	// TLS, MutualTLS, Login and LoginTLS are bootstrap addresses: TLS alone, TLS with a client certificate required, SASL without
	// TLS, and SASL over TLS. SASL mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.
	TLS, MutualTLS, Login, LoginTLS []string
	// CA is the PEM file of the authority of the brokers; OtherCA is one that did not sign them.
	CA, OtherCA string
	// ClientCert and ClientKey are the PEM files of a client; its principal is User:CN=weir.
	ClientCert, ClientKey string
	// Tokens gives tokens for OAUTHBEARER against client credentials.
	Tokens TokenServer
}

// The logins of a SecureCluster. User has every right, Guest has none until Allow gives it some. Both have the password.
const (
	User     = "weir"
	Guest    = "guest"
	Password = `p@ss "word"\1`
)

// Secure starts a cluster of its own with listeners for every kind of connection.
func Secure(t testing.TB, opts ...Option) *SecureCluster {
	t.Helper()
	dir := t.TempDir()
	ca, server := newAuthority(t, "weir test CA"), filepath.Join(dir, "server.pem")
	s := &SecureCluster{
		CA: filepath.Join(dir, "ca.pem"), OtherCA: filepath.Join(dir, "other-ca.pem"),
		ClientCert: filepath.Join(dir, "client.pem"), ClientKey: filepath.Join(dir, "client.key"),
	}
	writePEM(t, s.CA, ca.certificate())
	writePEM(t, s.OtherCA, newAuthority(t, "another CA").certificate())
	cert, key := ca.issue(t, "localhost")
	writePEM(t, server, key, cert, ca.certificate())
	cert, key = ca.issue(t, User)
	writePEM(t, s.ClientCert, cert)
	writePEM(t, s.ClientKey, key)
	s.Tokens = newTokenServer(t)

	s.Cluster = Start(t, append(opts, Private(), func(o *settings) {
		o.listeners = []string{"TLS:SSL", "MTLS:SSL", "LOGIN:SASL_PLAINTEXT", "LOGINTLS:SASL_SSL"}
		o.properties = append(o.properties, secureProperties(server, s.CA)...)
	})...)
	s.TLS, s.MutualTLS = s.addresses("TLS"), s.addresses("MTLS")
	s.Login, s.LoginTLS = s.addresses("LOGIN"), s.addresses("LOGINTLS")
	for _, name := range []string{User, Guest} {
		s.scramUser(name, 1, sha256.New)
		s.scramUser(name, 2, sha512.New)
	}
	return s
}

func secureProperties(server, ca string) []string {
	lines := []string{
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS;User:" + User + ";User:CN=" + User,
		"listener.name.mtls.ssl.client.auth=required",
	}
	for _, name := range []string{"tls", "mtls", "logintls"} {
		for _, p := range []string{"keystore.type=PEM", "keystore.location=" + server, "truststore.type=PEM", "truststore.location=" + ca} {
			lines = append(lines, "listener.name."+name+".ssl."+p)
		}
	}
	quoted := javaQuote(Password)
	for _, name := range []string{"login", "logintls"} {
		p := "listener.name." + name + "."
		lines = append(lines,
			p+"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
			p+"plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "+
				"user_"+User+"="+quoted+" user_"+Guest+"="+quoted+";",
			p+"scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
			p+"scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
			// Without another validator the broker takes unsigned tokens, which is what the TokenServer gives.
			p+"oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "+
				`unsecuredLoginStringClaim_sub="broker";`)
	}
	return lines
}

// javaQuote quotes a value for a JAAS line within a properties file: each of the two takes one level of backslashes away.
func javaQuote(s string) string {
	jaas := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	return strings.ReplaceAll(jaas, `\`, `\\`)
}

// scramUser gives a user the password with one SCRAM mechanism: 1 is SHA-256, 2 is SHA-512. A request may name a user once.
func (s *SecureCluster) scramUser(name string, mechanism int8, h func() hash.Hash) {
	s.t.Helper()
	const iterations = 4096
	salt := []byte(rand.Text())
	salted, err := pbkdf2.Key(h, Password, salt, iterations, h().Size())
	if err != nil {
		s.t.Fatalf("SCRAM credentials of %s: %v", name, err)
	}
	req, one := kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	one.Name, one.Mechanism, one.Iterations, one.Salt, one.SaltedPassword = name, mechanism, iterations, salt, salted
	req.Upsertions = append(req.Upsertions, one)
	ctx, cancel := s.context()
	defer cancel()
	resp, err := req.RequestWith(ctx, s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
	}
	if err != nil {
		s.t.Fatalf("SCRAM credentials of %s: %v", name, err)
	}
}

// Allow gives a user a right on what has exactly this name, or on everything of the kind where name is "*".
func (s *SecureCluster) Allow(user string, kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) {
	s.t.Helper()
	s.rule(user, kind, name, op, kmsg.ACLPermissionTypeAllow)
}

// Deny takes a right away, whatever is allowed, until the function that it returns is called.
func (s *SecureCluster) Deny(user string, kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) (lift func()) {
	s.t.Helper()
	s.rule(user, kind, name, op, kmsg.ACLPermissionTypeDeny)
	return func() {
		s.t.Helper()
		req, one := kmsg.NewPtrDeleteACLsRequest(), kmsg.NewDeleteACLsRequestFilter()
		one.ResourceType, one.ResourceName, one.ResourcePatternType = kind, &name, kmsg.ACLResourcePatternTypeLiteral
		one.Principal = kmsg.StringPtr("User:" + user)
		one.Operation, one.PermissionType = op, kmsg.ACLPermissionTypeDeny
		req.Filters = append(req.Filters, one)
		ctx, cancel := s.context()
		defer cancel()
		resp, err := req.RequestWith(ctx, s.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
		}
		if err != nil {
			s.t.Fatalf("lift what denies %s to %v %v %s: %v", user, op, kind, name, err)
		}
	}
}

func (s *SecureCluster) rule(user string, kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation, permission kmsg.ACLPermissionType) {
	s.t.Helper()
	req, one := kmsg.NewPtrCreateACLsRequest(), kmsg.NewCreateACLsRequestCreation()
	one.ResourceType, one.ResourceName, one.ResourcePatternType = kind, name, kmsg.ACLResourcePatternTypeLiteral
	one.Principal, one.Host = "User:"+user, "*"
	one.Operation, one.PermissionType = op, permission
	req.Creations = append(req.Creations, one)
	ctx, cancel := s.context()
	defer cancel()
	resp, err := req.RequestWith(ctx, s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
	}
	if err != nil {
		s.t.Fatalf("%v: %s to %v %v %s: %v", permission, user, op, kind, name, err)
	}
}

// TokenServer is an OAuth 2 token endpoint for the client-credentials grant, and the credentials that it takes.
type TokenServer struct {
	URL, ClientID, ClientSecret string
}

func newTokenServer(t testing.TB) TokenServer {
	s := TokenServer{ClientID: User, ClientSecret: rand.Text()}
	server := httptest.NewServer(http.HandlerFunc(s.give))
	t.Cleanup(server.Close)
	s.URL = server.URL + "/token"
	return s
}

// give answers with an unsigned token, good for an hour, whose subject is the client.
func (s TokenServer) give(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	if id != s.ClientID || secret != s.ClientSecret || r.PostFormValue("grant_type") != "client_credentials" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": "invalid_client"}`)
		return
	}
	now := time.Now().Unix()
	claims := `{"sub": ` + strconv.Quote(id) + fmt.Sprintf(`, "iat": %d, "exp": %d}`, now, now+3600)
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"alg": "none"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
	answer := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600}
	_ = json.NewEncoder(w).Encode(answer) // the client that went away gets no token
}
