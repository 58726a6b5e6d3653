package exchange

import (
	"testing"

	"github.com/weirstream/weir/record"
)

func batch(size int) Message { return Message{Batch: &record.Batch{Bytes: size}} }

func TestChannelKeepsOrderAcrossBarriers(t *testing.T) {
	c := NewChannel(100, func() {}, func() {})
	c.Send(batch(1))
	c.Send(Message{Barrier: record.Barrier{Checkpoint: 7}})
	c.Send(batch(2))
	for i, want := range []struct{ bytes, barrier int }{{1, 0}, {0, 7}, {2, 0}} {
		m, ok := c.Receive()
		if !ok {
			t.Fatalf("message %d is missing", i)
		}
		if m.Batch != nil && m.Batch.Bytes != want.bytes || int(m.Barrier.Checkpoint) != want.barrier {
			t.Errorf("message %d = %+v, want %+v", i, m, want)
		}
	}
	if _, ok := c.Receive(); ok || !c.Empty() {
		t.Error("the channel should be empty")
	}
}

func TestChannelWakesItsSenderWhenThereIsRoomAgain(t *testing.T) {
	woken := 0
	c := NewChannel(10, func() { woken++ }, func() {})
	c.Send(batch(6))
	if c.Full() {
		t.Fatal("6 of 10 bytes is not full")
	}
	c.Send(batch(6))
	if !c.Full() {
		t.Fatal("12 of 10 bytes is full")
	}
	c.Send(Message{Barrier: record.Barrier{Checkpoint: 1}}) // gets through all the same
	c.Receive()
	if c.Full() || woken != 1 {
		t.Errorf("full %v, woken %d; want room and one wake", c.Full(), woken)
	}
	c.Receive()
	c.Receive()
	if woken != 1 || c.Bytes() != 0 {
		t.Errorf("woken %d, %d bytes left; want 1 and 0", woken, c.Bytes())
	}
}

func TestChannelReceiverIsWokenForEachMessage(t *testing.T) {
	woken := make(chan struct{}, 8)
	c := NewChannel(1, func() {}, func() { woken <- struct{}{} })
	go c.Send(batch(1))
	<-woken
	if _, ok := c.Receive(); !ok {
		t.Error("woken without a message")
	}
}

// BenchmarkChannel is one batch sent and received while a few are on the way.
func BenchmarkChannel(b *testing.B) {
	c := NewChannel(1<<20, func() {}, func() {})
	m := Message{Batch: &record.Batch{Bytes: 100}}
	for range 3 {
		c.Send(m)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Send(m)
		c.Receive()
	}
}
