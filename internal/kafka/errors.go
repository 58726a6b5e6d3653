package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/IBM/sarama"
)

// ErrNoLeader says that the metadata names no leader for a partition at the moment.
var ErrNoLeader = errors.New("no leader is known")

// Error is a request that a broker answered with an error code.
type Error struct {
	// Op is what was being done, as a person would say it: "look up topic views".
	Op   string
	Code sarama.KError
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (Kafka error %d)%s", e.Op, name(e.Code), int16(e.Code), cure(e.Code))
}

// Unwrap gives the code to errors.Is.
func (e *Error) Unwrap() error { return e.Code }

// name is sarama's text, or ours for codes that it does not know.
func name(code sarama.KError) string {
	switch code {
	case 90:
		return "the producer was fenced by a newer one with the same transactional id"
	case 100:
		return "the topic id is unknown"
	}
	return code.Error()
}

// cure is what a person can do about a code, where there is something.
func cure(code sarama.KError) string {
	switch code {
	case sarama.ErrUnknownTopicOrPartition:
		return "; create the topic, or correct its name"
	case sarama.ErrTopicAuthorizationFailed, sarama.ErrGroupAuthorizationFailed, sarama.ErrClusterAuthorizationFailed,
		sarama.ErrTransactionalIDAuthorizationFailed:
		return "; grant the right to this user"
	case sarama.ErrInvalidTransactionTimeout:
		return "; lower kafka.transaction_timeout or raise the brokers' transaction.max.timeout.ms"
	}
	return ""
}

// Class is what a caller can do about an error.
type Class uint8

// The classes, from the harmless to the final.
const (
	// OK is no error.
	OK Class = iota
	// Retry: the same request, to the same broker, a little later.
	Retry
	// Refresh: the same request after a new look at metadata or coordinator.
	Refresh
	// Fenced: a newer owner has taken over; stop and learn what it did.
	Fenced
	// Witness: no answer at all about the transaction; only the ledger tells.
	Witness
	// Stop: repeating cannot help.
	Stop
)

func (c Class) String() string {
	return [...]string{"ok", "retry", "refresh", "fenced", "witness", "stop"}[c]
}

// Permanent says that an error of a connection would be the same on any other attempt: wrong credentials, an untrusted
// certificate, a missing right.
func Permanent(err error) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var verify *tls.CertificateVerificationError
	return errors.Is(err, sarama.ErrSASLAuthenticationFailed) || errors.Is(err, sarama.ErrUnsupportedSASLMechanism) ||
		errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &verify)
}

// connectionClass classes an error that is no code: nearly everything is worth a new connection.
func connectionClass(err error) Class {
	if Permanent(err) || errors.Is(err, sarama.ErrUnsupportedVersion) {
		return Stop
	}
	return Refresh
}

// Describe puts an error of a connection into one line for a person.
func Describe(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var header tls.RecordHeaderError
	var dns *net.DNSError
	switch {
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return "the broker refused the user name or password (kafka.sasl)"
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return "the broker does not offer this SASL mechanism (kafka.sasl.mechanism)"
	case errors.As(err, &unknown):
		return "the broker's certificate is signed by an authority that is not trusted here (kafka.tls.ca)"
	case errors.As(err, &host):
		return "the broker's certificate is for another host name: " + host.Error()
	case errors.As(err, &header):
		return "the broker does not speak TLS on this port (kafka.tls)"
	case errors.As(err, &dns):
		return "the broker's host name is unknown: " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on the broker's address (kafka.brokers)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the broker closed the connection; does it expect TLS or SASL on this port?"
	case errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "the broker does not answer"
	}
	return err.Error()
}
