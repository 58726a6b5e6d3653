package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// maxPEM bounds a file of certificates, in bytes: all authorities of an operating system are a quarter of that.
const maxPEM = 1 << 20

var errNoFile = errors.New("it is no regular file")

func readPEM(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", path, errNoFile)
	case info.Size() > maxPEM:
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", path, info.Size(), maxPEM)
	}
	return os.ReadFile(path)
}

// validateFiles reads the certificates, so that a file at fault is told of with all the rest.
func (t TLS) validateFiles(check checker) {
	if t.CA != "" {
		pem, err := readPEM(t.CA)
		check(err == nil, "kafka.tls.ca", "cannot be read: %v", err)
		check(err != nil || x509.NewCertPool().AppendCertsFromPEM(pem), "kafka.tls.ca", "%s has no certificate, expected PEM", t.CA)
	}
	if t.Cert == "" || t.Key == "" {
		return
	}
	cert, err := readPEM(t.Cert)
	check(err == nil, "kafka.tls.cert", "cannot be read: %v", err)
	key, keyErr := readPEM(t.Key)
	check(keyErr == nil, "kafka.tls.key", "cannot be read: %v", keyErr)
	if err == nil && keyErr == nil {
		_, err = tls.X509KeyPair(cert, key)
		check(err == nil, "kafka.tls.cert", "does not go with kafka.tls.key: %v", err)
	}
}
