package verify

import (
	"fmt"
	"math/rand/v2"
)

// Workload describes the views to generate.
type Workload struct {
	Seed  uint64
	Users int
	Pages int
	// Hot is the share of views, from 0 to 1, that go to one percent of the users and to one page.
	Hot float64
	// Invalid is the share of views that the job must filter out.
	Invalid float64
	// Poison is the share of records that are no views at all.
	Poison float64
	// Quiet users, a third of all, send nothing for the first QuietFor views, so that some partitions are idle.
	QuietFor int
}

// DefaultWorkload is a lively web site.
func DefaultWorkload() Workload {
	return Workload{Seed: 1, Users: 1000, Pages: 40, Hot: 0.2, Invalid: 0.02, QuietFor: 5000}
}

// Generator makes views. The same Workload gives the same views.
type Generator struct {
	w      Workload
	random *rand.Rand
	seqs   []int64
	made   int
	poison int
}

// NewGenerator returns a generator at its first view.
func NewGenerator(w Workload) *Generator {
	return &Generator{w: w, random: rand.New(rand.NewPCG(w.Seed, 0x77656972)), seqs: make([]int64, w.Users)}
}

// Next returns key and value of the next record.
func (g *Generator) Next() (key, value []byte) {
	g.made++
	if g.random.Float64() < g.w.Poison {
		g.poison++
		return fmt.Appendf(nil, "poison-%d", g.poison), fmt.Appendf(nil, "%s%d", poisonPrefix, g.poison)
	}
	v := g.view()
	return []byte(v.User), v.Encode()
}

// poisonPrefix begins a value that is no JSON.
const poisonPrefix = "{poison "

func (g *Generator) view() View {
	user, page := g.user(), g.random.IntN(g.w.Pages)
	if g.random.Float64() < g.w.Hot {
		page = 0
	}
	status := 200
	if g.random.Float64() < g.w.Invalid {
		status = 500
	}
	g.seqs[user]++
	return NewView(fmt.Sprintf("user-%d", user), g.seqs[user], fmt.Sprintf("/page/%d", page), status, 1+g.random.Int64N(250))
}

func (g *Generator) user() int {
	if g.random.Float64() < g.w.Hot {
		return g.random.IntN(max(1, g.w.Users/100))
	}
	user := g.random.IntN(g.w.Users)
	if g.made < g.w.QuietFor && user%3 == 0 {
		user = min(user+1, g.w.Users-1)
	}
	return user
}
