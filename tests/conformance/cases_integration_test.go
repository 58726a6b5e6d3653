//go:build integration

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// aCase is one row of the table. What runs says what it saw, in words that do not depend on timing.
type aCase struct {
	name        string
	partitions  int
	run         func(*script) string
	kafka, fake string
}

const rounds = 20

func cases() []aCase {
	same := func(name string, run func(*script) string, both string) aCase {
		return aCase{name, 1, run, both, both}
	}
	return []aCase{
		{"last stable offset right after EndTxn", 24, stableAfterEnd, "behind at times", "never behind"},
		{"first batch of a new producer at sequence 10, then at 0", 1, firstSequence, "0, 45", "45, 0"},
		{"first writes under one identity from 16 clients", 48, manyClients, "19 at times", "never 19"},
		{"write right after EndTxn(commit) = 0", 1, writeAfterEnd, "accepted at times", "refused: 48"},
		{"zombie write after the fence", 1, zombieWrite, "47", "48"},
		{"zombie offsets after the fence", 1, zombieOffsets, "47", "90"},
		{"conditional identity, asked for twice", 1, conditionalTwice, "the same", "another"},
		{"conditional identity, older epoch", 1, conditionalOlder, "90", "+1"},
		{"conditional identity, another producer id", 1, conditionalOther, "90", "49"},
		{"conditional identity of a deposed leader", 1, conditionalDeposed, "90", "+1"},
		{"fence of an open transaction", 1, fenceOpen, "51 first, epoch +2", "at once, epoch +1"},
		{"offsets with a sentinel member, new group and again", 1, sentinel, "0, 0", "0, 25"},
		{"offset of a group that never committed", 1, neverCommitted, "-1", "group error 69"},
		{"offset while a transaction has one", 1, unstableOffset, "Empty, error 88", "Dead, group error 69"},
		same("transaction timeout of 1 s", timeout, "aborted, then 90"),
		same("batches sent again, the last five and an older one", sentAgain, "0 0 0 0 0, 45"),
		same("AddPartitions with the committed identity", addAfterCommit, "0"),
		same("write to a partition that is not in the transaction", notAdded, "48"),
		same("EndTxn(commit) repeated, then abort", endRepeated, "0, 48"),
		same("EndTxn of an identity that was fenced", endFenced, "90"),
		same("two open transactions in nine orders", nineOrders, "as committed"),
	}
}

func stableAfterEnd(s *script) string {
	i := s.begin(s.id)
	behind := false
	for n := range rounds {
		parts := s.Offsets(s.topic)
		for p := range parts {
			s.must(i, p, 0, fmt.Sprint(n))
		}
		s.settle(i, true)
		for _, o := range s.Offsets(s.topic) {
			behind = behind || o.LastStable < o.High
		}
		i = s.begin(s.id)
	}
	s.settle(i, false)
	if behind {
		return "behind at times"
	}
	return "never behind"
}

func firstSequence(s *script) string {
	i := s.begin(s.id)
	return fmt.Sprintf("%d, %d", s.write(i, 0, 10, "ten"), s.write(i, 0, 0, "zero"))
}

func manyClients(s *script) string {
	const clients = 16
	i := s.begin(s.id)
	parts, err := s.client.Partitions(s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	var all sync.WaitGroup
	seen := make([]bool, clients)
	for n := range clients {
		client := s.connect()
		all.Go(func() {
			for p := n; p < len(parts); p += clients {
				seen[n] = seen[n] || s.writeFrom(client, i, int32(p), 0, "x") == 19
			}
		})
	}
	all.Wait()
	if slices.Contains(seen, true) {
		return "19 at times"
	}
	return "never 19"
}

func writeAfterEnd(s *script) string {
	var refusals []string
	for range rounds {
		i := s.begin(s.id)
		s.must(i, 0, 0, "in time")
		if code := s.end(i, true); code != 0 {
			s.t.Fatalf("EndTxn: %d", code)
		}
		code := s.write(i, 0, 1, "too late")
		if code == 0 {
			return "accepted at times"
		}
		if text := fmt.Sprint(code); !slices.Contains(refusals, text) {
			refusals = append(refusals, text)
		}
	}
	slices.Sort(refusals)
	return "refused: " + strings.Join(refusals, " ")
}

func zombieWrite(s *script) string {
	old := s.begin(s.id)
	s.must(old, 0, 0, "old")
	s.fence(s.id)
	return fmt.Sprint(s.write(old, 0, 1, "zombie"))
}

func zombieOffsets(s *script) string {
	old := s.begin(s.id)
	s.addOffsets(old)
	s.fence(s.id)
	return fmt.Sprint(s.commitOffset(old, ""))
}

// ended returns the identity of a transaction that is committed to the end.
func ended(s *script) identity {
	i := s.begin(s.id)
	s.must(i, 0, 0, "x")
	s.settle(i, true)
	s.Settled(s.topic)
	return i
}

// next asks on condition that old is the current identity, until the answer is not 51.
func next(s *script, old identity) (got identity, code int16) {
	s.t.Helper()
	code = s.patient(func() (code int16) {
		got, code = s.initProducer(s.id, old, time.Minute)
		return code
	})
	return got, code
}

// conditional names the answer to the condition that old is the current identity.
func conditional(s *script, old, current identity) string {
	got, code := next(s, old)
	if code != 0 {
		return fmt.Sprint(code)
	}
	return fmt.Sprintf("%+d", got.epoch-current.epoch)
}

func conditionalTwice(s *script) string {
	i := ended(s)
	if first, second := conditional(s, i, i), conditional(s, i, i); first != second {
		return "another"
	}
	return "the same"
}

func conditionalOlder(s *script) string {
	old := ended(s)
	current, _ := next(s, old)
	current, _ = next(s, current)
	return conditional(s, old, current)
}

func conditionalOther(s *script) string {
	i := ended(s)
	other := i
	other.pid += 1000
	return conditional(s, other, i)
}

func conditionalDeposed(s *script) string {
	deposed := ended(s)
	current, _ := s.fence(s.id)
	return conditional(s, deposed, current)
}

func fenceOpen(s *script) string {
	old := s.begin(s.id)
	s.must(old, 0, 0, "open")
	got, concurrent := s.fence(s.id)
	how := "at once"
	if concurrent > 0 {
		how = "51 first"
	}
	return fmt.Sprintf("%s, epoch %+d", how, got.epoch-old.epoch)
}

func timeout(s *script) string {
	var i identity
	s.Until("identity", s.retry(func() (code int16) {
		i, code = s.initProducer(s.id, none, time.Second)
		return code
	}))
	s.add(i)
	s.must(i, 0, 0, "open")
	aborted := "still open"
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); {
		if o := s.Offsets(s.topic)[0]; o.LastStable == o.High {
			aborted = "aborted"
			break
		}
	}
	return fmt.Sprintf("%s, then %d", aborted, s.end(i, true))
}

func sentinel(s *script) string {
	i := s.begin(s.id)
	s.addOffsets(i)
	first := s.commitOffset(i, "weir")
	s.settle(i, true)
	i = s.begin(s.id)
	s.addOffsets(i)
	return fmt.Sprintf("%d, %d", first, s.commitOffset(i, "weir"))
}

func neverCommitted(s *script) string { return s.offset() }

func unstableOffset(s *script) string {
	i := s.begin(s.id)
	s.addOffsets(i)
	if code := s.commitOffset(i, ""); code != 0 {
		s.t.Fatalf("offset: %d", code)
	}
	return s.groupState() + ", " + s.offset()
}

func sentAgain(s *script) string {
	i := s.begin(s.id)
	const batches = 7
	for n := range int32(batches) {
		s.must(i, 0, n, fmt.Sprint(n))
	}
	var last []string
	for n := int32(batches - 5); n < batches; n++ {
		last = append(last, fmt.Sprint(s.write(i, 0, n, fmt.Sprint(n))))
	}
	return fmt.Sprintf("%s, %d", strings.Join(last, " "), s.write(i, 0, 0, "0"))
}

func addAfterCommit(s *script) string {
	i := ended(s)
	return fmt.Sprint(s.patient(func() int16 { return s.tryAdd(i) }))
}

func notAdded(s *script) string {
	i, _ := s.fence(s.id)
	return fmt.Sprint(s.write(i, 0, 0, "stray"))
}

func endRepeated(s *script) string {
	i := ended(s)
	again := s.patient(func() int16 { return s.end(i, true) })
	return fmt.Sprintf("%d, %d", again, s.patient(func() int16 { return s.end(i, false) }))
}

func endFenced(s *script) string {
	old := s.begin(s.id)
	s.must(old, 0, 0, "open")
	s.fence(s.id)
	return fmt.Sprint(s.end(old, true))
}

// nineOrders opens two transactions in one partition, writes them interleaved, and ends each by commit, abort or fence, the
// second one first.
func nineOrders(s *script) string {
	ends := []string{"commit", "abort", "fence"}
	var want []string
	for n, first := range ends {
		for m, second := range ends {
			a, b := s.begin(s.id+"a"), s.begin(s.id+"b")
			name := func(of string, k int) string { return fmt.Sprintf("%s%d%d%d", of, n, m, k) }
			s.must(a, 0, 0, name("a", 0))
			s.must(b, 0, 0, name("b", 0))
			s.must(a, 0, 1, name("a", 1))
			for _, e := range []struct {
				i   identity
				how string
			}{{b, second}, {a, first}} {
				if e.how == "fence" {
					s.fence(e.i.id)
				} else {
					s.settle(e.i, e.how == "commit")
				}
			}
			if first == "commit" {
				want = append(want, name("a", 0))
			}
			if second == "commit" {
				want = append(want, name("b", 0))
			}
			if first == "commit" {
				want = append(want, name("a", 1))
			}
		}
	}
	var got []string
	for _, r := range s.ReadCommitted(s.topic) {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("read %v, committed %v", got, want)
	}
	return "as committed"
}
