package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// Plan is a whole check: views are fed for a while, and the job's output is followed until nothing is missing.
type Plan struct {
	Brokers []string
	Config  *sarama.Config
	Topics  Topics
	// Workload is fed at Rate a second (0: as fast as possible) for Duration or until Count views are sent, whichever comes
	// first; 0 stands for no bound. With neither bound nothing is fed: the input is there already.
	Workload Workload
	Rate     int
	Duration time.Duration
	Count    int
	// Drain bounds the time from the last view to its last effect.
	Drain time.Duration
	// Restart, where it is set, is about how often the readers pause for a moment and start again.
	Restart time.Duration
	// OnPoll is told of the progress; it may be nil.
	OnPoll func(Progress)
}

// Run carries out the plan. The verdict is worth something even where there is an error: it tells what is missing.
func Run(ctx context.Context, p Plan) (Verdict, error) {
	c, err := NewChecker(p.Brokers, p.Config, p.Topics)
	if err != nil {
		return Verdict{}, err
	}
	c.OnPoll = p.OnPoll
	v, err := p.check(ctx, c)
	return v, errors.Join(err, c.Close())
}

func (p Plan) check(ctx context.Context, c *Checker) (Verdict, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan error, 1)
	go func() {
		defer stop()
		fed <- p.feed(ctx)
	}()
	followed := p.follow(following, c)
	if err := errors.Join(<-fed, followed); err != nil {
		return c.Verdict(), err
	}
	draining, cancel := context.WithTimeout(ctx, p.Drain)
	defer cancel()
	return c.Drain(draining)
}

func (p Plan) feed(ctx context.Context) error {
	if p.Duration == 0 && p.Count == 0 {
		return nil
	}
	if p.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Duration)
		defer cancel()
	}
	f, err := NewFeeder(p.Brokers, p.Config, p.Topics.Input)
	if err != nil {
		return err
	}
	return f.Feed(ctx, NewGenerator(p.Workload), p.Rate, p.Count)
}

// follow polls until ctx ends, with pauses and restarts.
func (p Plan) follow(ctx context.Context, c *Checker) error {
	if p.Restart == 0 {
		return c.Follow(ctx)
	}
	random := rand.New(rand.NewPCG(p.Workload.Seed, 0x7461696c))
	for ctx.Err() == nil {
		stretch, cancel := context.WithTimeout(ctx, p.Restart/2+time.Duration(random.Int64N(int64(p.Restart))))
		err := c.Follow(stretch)
		cancel()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(p.Restart)))):
		}
		_ = c.Reconnect() // where the cluster is away, the old connections stay, and heal by themselves
	}
	return nil
}

// CreateTopics creates topics with so many partitions each; those that exist already are left as they are, and a topic of
// no partitions gets one and is compacted, as a ledger. replication is bounded by the number of brokers.
func CreateTopics(brokers []string, conf *sarama.Config, replication int16, partitions map[string]int32) error {
	admin, err := sarama.NewClusterAdmin(brokers, conf)
	if err != nil {
		return fmt.Errorf("connecting to %v: %w", brokers, err)
	}
	nodes, _, err := admin.DescribeCluster()
	if err != nil {
		return errors.Join(fmt.Errorf("describing the cluster: %w", err), admin.Close())
	}
	replication = min(replication, int16(len(nodes)))
	for name, n := range partitions {
		detail := &sarama.TopicDetail{NumPartitions: n, ReplicationFactor: replication}
		if compact := "compact"; n == 0 {
			detail.NumPartitions, detail.ConfigEntries = 1, map[string]*string{"cleanup.policy": &compact}
		}
		e := admin.CreateTopic(name, detail, false)
		if e != nil && !errors.Is(e, sarama.ErrTopicAlreadyExists) {
			err = errors.Join(err, fmt.Errorf("creating topic %s: %w", name, e))
		}
	}
	return errors.Join(err, admin.Close())
}

// DeleteTopics deletes topics that CreateTopics made.
func DeleteTopics(brokers []string, conf *sarama.Config, names ...string) error {
	admin, err := sarama.NewClusterAdmin(brokers, conf)
	if err != nil {
		return fmt.Errorf("connecting to %v: %w", brokers, err)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if e := admin.DeleteTopic(name); e != nil && !errors.Is(e, sarama.ErrUnknownTopicOrPartition) {
			err = errors.Join(err, fmt.Errorf("deleting topic %s: %w", name, e))
		}
	}
	return errors.Join(err, admin.Close())
}
