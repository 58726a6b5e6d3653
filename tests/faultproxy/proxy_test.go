package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup returns a proxy before a kfake that counts the metadata requests that it has carried out.
func setup(t *testing.T) (*Proxy, chan struct{}) {
	k, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	served := make(chan struct{}, 100)
	k.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		served <- struct{}{}
		return nil, nil, false
	})
	p, err := Listen("127.0.0.1:0", k.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, served
}

func dial(t *testing.T, p *Proxy) net.Conn {
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a metadata request and waits for the answer.
func ask(c net.Conn, wait time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	req := kmsg.NewPtrMetadataRequest()
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)); err != nil {
		return err
	}
	_, err := readFrame(c)
	return err
}

const plenty = 20 * time.Second

func TestFaultsHitTheirRequests(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		served bool
	}{
		{LoseRequest, false}, {HalfRequest, false}, {LoseAnswer, true}, {HalfAnswer, true}, {Late, true},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			p, served := setup(t)
			other := p.Inject(Fault{Kind: c.kind, Requests: []kmsg.Key{kmsg.EndTxn}})
			armed := p.Inject(Fault{Kind: c.kind, Requests: []kmsg.Key{kmsg.Metadata}, After: 1, Count: 1})
			conn := dial(t, p)
			if err := ask(conn, plenty); err != nil {
				t.Fatalf("the first request should pass: %v", err)
			}
			<-served
			if err := ask(conn, plenty); err == nil || isTimeout(err) {
				t.Fatalf("the second request should lose its connection, got %v", err)
			}
			<-armed.Done()
			if c.served {
				<-served
			}
			if err := ask(dial(t, p), plenty); err != nil {
				t.Fatalf("the fault is used up, the third request should pass: %v", err)
			}
			<-served
			if len(served) != 0 {
				t.Errorf("the broker carried out %d requests too many", len(served))
			}
			if other.Hits() != 0 || armed.Hits() != 1 || p.Hits()[c.kind] != 1 {
				t.Errorf("hits: %d for another request, %d, %v in all; want 0, 1, 1", other.Hits(), armed.Hits(), p.Hits())
			}
		})
	}
}

func TestLateRequestArrives(t *testing.T) {
	p, served := setup(t)
	const delay = 100 * time.Millisecond
	p.Inject(Fault{Kind: Late, Count: 1, Delay: delay})
	began := time.Now()
	if err := ask(dial(t, p), plenty); err == nil || isTimeout(err) {
		t.Fatalf("the client should lose its connection, got %v", err)
	}
	<-served
	if waited := time.Since(began); waited < delay {
		t.Errorf("the broker had the request after %v, want %v", waited, delay)
	}
}

func TestSlowAndDelay(t *testing.T) {
	p, _ := setup(t)
	conn := dial(t, p)
	p.Inject(Fault{Kind: Slow, Count: 1, Delay: 50 * time.Millisecond})
	p.Delay(ToClient, 30*time.Millisecond)
	began := time.Now()
	if err := ask(conn, plenty); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("slow request and delayed answer took %v, want 80ms", took)
	}
}

func TestOneWay(t *testing.T) {
	for _, way := range []Direction{ToBroker, ToClient} {
		p, served := setup(t)
		conn := dial(t, p)
		p.Swallow(way, true)
		if err := ask(conn, 200*time.Millisecond); !isTimeout(err) {
			t.Errorf("direction %d: want a timeout, got %v", way, err)
		}
		if way == ToClient {
			<-served
		}
		if len(served) != 0 {
			t.Errorf("direction %d: the broker has carried out too much", way)
		}
		p.Swallow(way, false)
		if err := conn.SetDeadline(time.Now().Add(plenty)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err == nil || isTimeout(err) {
			t.Errorf("direction %d: the connection that lost something should be reset, got %v", way, err)
		}
		if err := ask(dial(t, p), plenty); err != nil {
			t.Errorf("direction %d: after it: %v", way, err)
		}
	}
}

func TestCutAndRefuse(t *testing.T) {
	p, _ := setup(t)
	conn := dial(t, p)
	if err := ask(conn, plenty); err != nil {
		t.Fatal(err)
	}
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d connections, want 1", n)
	}
	if err := ask(conn, plenty); err == nil || isTimeout(err) {
		t.Errorf("want a reset, got %v", err)
	}
	p.Refuse(true)
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // else it was refused before Dial had returned
		if err := ask(c, plenty); err == nil || isTimeout(err) {
			t.Errorf("want a refusal, got %v", err)
		}
		c.Close()
	}
	p.Refuse(false)
	if err := ask(dial(t, p), plenty); err != nil {
		t.Error(err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
