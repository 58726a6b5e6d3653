package verify

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// View is one page view, the input of the job under test.
type View struct {
	User string `json:"user"`
	// Seq numbers the views of one user from 1.
	Seq    int64  `json:"seq"`
	Page   string `json:"page"`
	Status int    `json:"status"`
	// Millis is how long the page took, in milliseconds.
	Millis int64  `json:"latency_ms"`
	ID     string `json:"id"`
	Sum    uint32 `json:"crc"`
}

// NewView returns a view with its id and checksum.
func NewView(user string, seq int64, page string, status int, millis int64) View {
	v := View{User: user, Seq: seq, Page: page, Status: status, Millis: millis, ID: user + ":" + strconv.FormatInt(seq, 10)}
	v.Sum = v.checksum()
	return v
}

// Valid says whether the job under test lets the view through.
func (v View) Valid() bool { return v.Status == 200 }

// Encode returns v as JSON.
func (v View) Encode() []byte {
	b, err := json.Marshal(v)
	if err != nil { // strings and numbers only: it cannot fail
		return nil
	}
	return b
}

func (v View) checksum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%s|%d|%s|%d|%d", v.User, v.Seq, v.Page, v.Status, v.Millis))
}

// decodeView returns the view that value holds, and false where it holds none or a damaged one.
func decodeView(value []byte) (v View, ok bool) {
	if err := json.Unmarshal(value, &v); err != nil {
		return View{}, false
	}
	return v, v.Sum == v.checksum()
}

// splitID returns user and sequence number of a view's id.
func splitID(id string) (user string, seq int64, ok bool) {
	user, number, found := strings.Cut(id, ":")
	if !found {
		return "", 0, false
	}
	seq, err := strconv.ParseInt(number, 10, 64)
	return user, seq, err == nil
}

// Total is what the job writes for a key of a running total: how many views, the sum of their times, and the last one.
type Total struct {
	Views int64  `json:"views"`
	Time  int64  `json:"time"`
	Last  string `json:"last"`
}
