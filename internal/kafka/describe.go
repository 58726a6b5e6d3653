package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/IBM/sarama"
	"golang.org/x/oauth2"
)

// brokerError is an error of the connection to one broker.
type brokerError struct {
	addr string
	err  error
}

func (e *brokerError) Error() string { return "broker " + e.addr + ": " + e.err.Error() }
func (e *brokerError) Unwrap() error { return e.err }

// Permanent says that an error of a connection would be the same on any other attempt: wrong credentials, an untrusted
// certificate.
func Permanent(err error) bool {
	var verify *tls.CertificateVerificationError
	var token *oauth2.RetrieveError
	return errors.Is(err, sarama.ErrSASLAuthenticationFailed) || errors.Is(err, sarama.ErrUnsupportedSASLMechanism) ||
		errors.Is(err, sarama.ErrIllegalSASLState) || errors.As(err, &verify) || isAlert(err) ||
		errors.As(err, &token) && token.Response != nil && token.Response.StatusCode < 500
}

// Unreachable says that nobody listens where the brokers should be, as long as they have not started.
func Unreachable(err error) bool {
	var lookup *net.DNSError
	var op *net.OpError
	return !Permanent(err) && (errors.As(err, &lookup) || errors.As(err, &op) && op.Op == "dial")
}

// isAlert says that the broker has refused this side's part of a TLS handshake.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" // as crypto/tls names them
}

// connectionClass classes an error that is no code: nearly everything is worth a new connection.
func connectionClass(err error) Class {
	if Permanent(err) || errors.Is(err, sarama.ErrUnsupportedVersion) {
		return Stop
	}
	return Refresh
}

// ConnectError says in one line for a person why there is no connection to the cluster.
type ConnectError struct{ Cause error }

// Error is what Describe makes of the cause.
func (e *ConnectError) Error() string { return Describe(e.Cause) }

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Cause }

// Describe puts an error into one line for a person: what is wrong, where, and what to do. Brokers with the same trouble are
// named together.
func Describe(err error) string {
	if err == nil {
		return ""
	}
	var lines []string
	where := map[string][]string{}
	for _, b := range brokerErrors(err) {
		line := describe(b.err)
		if where[line] == nil {
			lines = append(lines, line)
		}
		if !slices.Contains(where[line], b.addr) {
			where[line] = append(where[line], b.addr)
		}
	}
	if len(lines) == 0 {
		return describe(err)
	}
	for i, line := range lines {
		lines[i] = strings.Join(where[line], ", ") + ": " + line
	}
	return strings.Join(lines, "; ")
}

// brokerErrors finds the errors of single brokers that err is made of.
func brokerErrors(err error) []*brokerError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *brokerError:
		return []*brokerError{e}
	case interface{ Unwrap() []error }:
		var all []*brokerError
		for _, one := range e.Unwrap() {
			all = append(all, brokerErrors(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		return brokerErrors(e.Unwrap())
	}
	return nil
}

func describe(err error) string {
	for _, d := range []func(error) string{describeLogin, describeTLS, describeNetwork} {
		if line := d(err); line != "" {
			return line
		}
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func describeLogin(err error) string {
	var token *oauth2.RetrieveError
	var endpoint *url.Error
	switch {
	case errors.As(err, &token) && token.Response != nil && token.Response.StatusCode < 500:
		return "the token endpoint refused the client id or secret (kafka.sasl)"
	case errors.As(err, &token):
		return "the token endpoint failed (kafka.sasl.token_url)"
	case errors.As(err, &endpoint):
		return "the token endpoint " + endpoint.URL + " cannot be reached (kafka.sasl.token_url)"
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return "the broker refused the user name, password or token (kafka.sasl)"
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return "the broker does not offer this login mechanism (kafka.sasl.mechanism)"
	case errors.Is(err, sarama.ErrIllegalSASLState):
		return "the broker expects no login on this port; take kafka.sasl out or use another port (kafka.brokers)"
	}
	return ""
}

func describeTLS(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var verify *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var handshake *handshakeError
	switch {
	case errors.As(err, &unknown):
		return "the broker's certificate is signed by an authority that is not trusted here (kafka.tls.ca)"
	case errors.As(err, &host):
		return "the broker's certificate is not for this host name (kafka.tls.server_name): " + host.Error()
	case errors.As(err, &verify):
		return "the broker's certificate is not valid: " + verify.Err.Error()
	case isAlert(err):
		return "the broker refused this side's certificate, or wants one (kafka.tls.cert and key): " + err.Error()
	case errors.As(err, &header), errors.As(err, &handshake) && isClosed(err):
		return "the broker does not speak TLS on this port; take kafka.tls out or use another port (kafka.brokers)"
	}
	return ""
}

func describeNetwork(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "the host name is not known here (kafka.brokers, or the brokers' advertised.listeners)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; start the broker or correct the address (kafka.brokers)"
	case isClosed(err):
		return "the broker closed the connection; it may expect TLS (kafka.tls) or a login (kafka.sasl) on this port"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the broker does not answer in time"
	case errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	}
	return ""
}

// isClosed says that the other side ended the connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
