package config

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// certificate writes a certificate with its key into one file.
func certificate(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var both bytes.Buffer
	for kind, content := range map[string][]byte{"CERTIFICATE": cert, "PRIVATE KEY": key} {
		if err := pem.Encode(&both, &pem.Block{Type: kind, Bytes: content}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(file, both.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCertificatesAreRead(t *testing.T) {
	good, other, folder := certificate(t), certificate(t), t.TempDir()
	text := filepath.Join(folder, "text.pem")
	if err := os.WriteFile(text, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ca, cert, key, want string }{
		{good, good, good, ""},
		{"gone.pem", good, good, "kafka.tls.ca: cannot be read: stat gone.pem: no such file"},
		{text, good, good, "kafka.tls.ca: " + text + " has no certificate"},
		{folder, good, good, "kafka.tls.ca: cannot be read: " + folder + ": it is no regular file"},
		{good, "gone.pem", good, "kafka.tls.cert: cannot be read"},
		{good, good, "gone.pem", "kafka.tls.key: cannot be read"},
		{good, good, other, "kafka.tls.cert: does not go with kafka.tls.key"},
	} {
		_, err := Parse("p.yaml", withProperties(fmt.Sprintf("  tls: {enable: true, ca: %q, cert: %q, key: %q}\n", c.ca, c.cert, c.key)), nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "p.yaml:6: "+c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
