package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryCommandTakesTheFileByFlag, and refuses it twice.
func TestEveryCommandTakesTheFileByFlag(t *testing.T) {
	file := starterFile(t)
	for args, ok := range map[string]bool{
		"validate": true, "config": true, "plan --partitions " + counts: true,
		"checkpoint list": false, "checkpoint inspect": false, // there is no store yet
	} {
		words := strings.Fields(args)
		byFlag, out, errOut := weir(t, append(words, "-f", file)...)
		byName, sameOut, sameErr := weir(t, append(words, file)...)
		if (byFlag == exitFine) != ok || byFlag != byName || out != sameOut || errOut != sameErr {
			t.Errorf("weir %s -f FILE: status %d\n%s%s\nand without -f %d\n%s%s", args, byFlag, out, errOut, byName, sameOut, sameErr)
		}
	}
	for _, args := range []string{"config", "plan", "checkpoint list", "run", "status", "txn list"} {
		if status, _, errOut := weir(t, append(strings.Fields(args), file, "-f", file)...); status != exitUsage || !strings.Contains(errOut, "twice") {
			t.Errorf("weir %s FILE -f FILE: status %d, %s", args, status, errOut)
		}
	}
}

// TestStatusFindsTheJob by flag, file and environment, in this order.
func TestStatusFindsTheJob(t *testing.T) {
	asked := 0
	job := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte(`{"schema_version":1,"job":"page-views"}`))
	}))
	defer job.Close()
	address := strings.TrimPrefix(job.URL, "http://")
	text, err := os.ReadFile(starterFile(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, append(text, "\nhttp: {listen: \""+address+"\"}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := closedPort(t)
	for i, c := range []struct {
		environment string
		args        []string
	}{
		{"", []string{"--address", address}},
		{"", []string{file}},
		{"", []string{"-f", file}},
		{nobody, []string{"--address", address}},
		{address, nil},
	} {
		if c.environment != "" {
			t.Setenv(listenVariable, c.environment)
		}
		if status, out, errOut := weir(t, append([]string{"status"}, c.args...)...); status != exitFine || asked != i+1 {
			t.Errorf("%+v: status %d\n%s%s", c, status, out, errOut)
		}
	}
	t.Setenv(listenVariable, "off")
	if status, _, errOut := weir(t, "status", file); status != exitUsage || !strings.Contains(errOut, "off") {
		t.Errorf("status %d, %s", status, errOut)
	}
}
