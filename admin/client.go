package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// statusBytes bounds the answer that Fetch takes.
const statusBytes = 64 << 20

// Fetch asks the job whose server listens at address (host:port, or an http or https URL) for its status. ctx should have a
// deadline. A document of a version that this binary does not know is refused.
func Fetch(ctx context.Context, client *http.Client, address string) (Status, error) {
	url := jobURL(address)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Status{}, fmt.Errorf("address %q: %w; give it as host:port", address, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Status{}, fmt.Errorf("no answer from a job: %w; is it running, and is this its http.listen?", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Status{}, fmt.Errorf("%s answered %s; is this the http.listen of a job?", url, resp.Status)
	}
	return decode(resp.Body, url)
}

func jobURL(address string) string {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return strings.TrimSuffix(address, "/") + "/api/v1/job"
}

func decode(body io.Reader, url string) (Status, error) {
	text, err := io.ReadAll(io.LimitReader(body, statusBytes))
	if err != nil {
		return Status{}, fmt.Errorf("%s: the answer ended too early: %w", url, err)
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("%s: the answer is no status of a job: %w", url, err)
	}
	if s.SchemaVersion != SchemaVersion {
		return Status{}, fmt.Errorf("%s: status of schema version %d, this binary knows %d: use the weir that runs the job",
			url, s.SchemaVersion, SchemaVersion)
	}
	return s, nil
}
