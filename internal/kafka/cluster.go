package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// Partition is what the metadata says of one partition.
type Partition struct {
	ID int32
	// Leader is the broker id of the leader, -1 where there is none.
	Leader      int32
	LeaderEpoch int32
	Replicas    []int32
	InSync      []int32
}

// Topic is what the metadata says of one topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition
}

// Cluster is one client of a Kafka cluster: its metadata, and its connections by broker and purpose. It may be used by
// many goroutines.
type Cluster struct {
	opts  Options
	conns connections
	mu    struct {
		sync.Mutex
		brokers    map[int32]string
		topics     map[string]*Topic
		refreshed  time.Time
		refreshing chan struct{}
		lastErr    error
	}
}

// refreshGap is the least time between two metadata requests, however many ask.
const refreshGap = 50 * time.Millisecond

// Open connects to the cluster and returns when one of the bootstrap brokers has told of the topics, or, as a
// *ConnectError, why none did.
func Open(ctx context.Context, o Options, topics ...string) (*Cluster, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{opts: o}
	if err := c.conns.init(o); err != nil {
		return nil, err
	}
	c.mu.brokers, c.mu.topics = map[int32]string{}, map[string]*Topic{}
	if err := c.Refresh(ctx, topics...); err != nil {
		c.Close()
		err = &ConnectError{err}
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	return c, nil
}

// Close closes all connections. Requests under way fail.
func (c *Cluster) Close() { c.conns.close() }

// Topic returns the metadata of a topic, asking for it where it is not known yet.
func (c *Cluster) Topic(ctx context.Context, name string) (*Topic, error) {
	c.mu.Lock()
	t := c.mu.topics[name]
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	if err := c.Refresh(ctx, name); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t = c.mu.topics[name]; t == nil {
		return nil, &Error{Op: "look up topic " + name, Code: sarama.ErrUnknownTopicOrPartition}
	}
	return t, nil
}

// Exists says whether there is a topic of that name, as far as this user may know.
func (c *Cluster) Exists(ctx context.Context, name string) (bool, error) {
	_, err := c.Topic(ctx, name)
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return false, nil
	}
	return err == nil, err
}

// Leader returns the address and epoch of the leader of a partition as last known; ErrNoLeader where there is none.
func (c *Cluster) Leader(topic string, partition int32) (addr string, epoch int32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.mu.topics[topic]
	if t == nil || int(partition) >= len(t.Partitions) {
		return "", 0, fmt.Errorf("partition %s-%d: %w", topic, partition, ErrNoLeader)
	}
	p := t.Partitions[partition]
	addr, ok := c.mu.brokers[p.Leader]
	if !ok {
		return "", 0, fmt.Errorf("partition %s-%d: %w", topic, partition, ErrNoLeader)
	}
	return addr, p.LeaderEpoch, nil
}

// Brokers returns the addresses of all known brokers.
func (c *Cluster) Brokers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.mu.brokers))
}

// Refresh asks a broker for the metadata of every topic known so far and of those named. Calls at the same time share one
// request, and a call right after another waits a little, so any error may call it.
func (c *Cluster) Refresh(ctx context.Context, topics ...string) error {
	for {
		c.mu.Lock()
		missing := false
		for _, t := range topics {
			if _, known := c.mu.topics[t]; !known {
				c.mu.topics[t], missing = nil, true
			}
		}
		running := c.mu.refreshing
		if running == nil {
			c.mu.refreshing = make(chan struct{})
			c.mu.Unlock()
			return c.refresh(ctx)
		}
		c.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !missing { // the request that has just ended may have begun before the topic was named
			c.mu.Lock()
			err := c.mu.lastErr
			c.mu.Unlock()
			return err
		}
	}
}

func (c *Cluster) refresh(ctx context.Context) error {
	c.mu.Lock()
	wait := refreshGap - time.Since(c.mu.refreshed)
	c.mu.Unlock()
	err := Sleep(ctx, wait)
	if err == nil {
		err = c.load(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.refreshed, c.mu.lastErr = time.Now(), err
	close(c.mu.refreshing)
	c.mu.refreshing = nil
	return err
}

// load asks for all topics that are wanted.
func (c *Cluster) load(ctx context.Context) error {
	req := &sarama.MetadataRequest{Version: 11}
	c.mu.Lock()
	for t := range c.mu.topics {
		req.Topics = append(req.Topics, t)
	}
	c.mu.Unlock()
	if len(req.Topics) == 0 { // the request would ask for all topics of the cluster
		return c.loadBrokers(ctx)
	}
	resp, err := AnyBroker(ctx, c, func(b *sarama.Broker) (*sarama.MetadataResponse, error) { return b.GetMetadata(req) })
	if err != nil {
		return err
	}
	return c.store(resp)
}

// loadBrokers asks for the brokers alone.
func (c *Cluster) loadBrokers(ctx context.Context) error {
	req := &sarama.DescribeClusterRequest{}
	resp, err := AnyBroker(ctx, c, func(b *sarama.Broker) (*sarama.DescribeClusterResponse, error) { return b.DescribeCluster(req) })
	if err != nil {
		return err
	}
	if resp.Err != sarama.ErrNoError {
		return &Error{Op: "look up the brokers", Code: resp.Err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.brokers = map[int32]string{}
	for _, b := range resp.Brokers {
		c.mu.brokers[b.BrokerID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	return nil
}

func (c *Cluster) store(r *sarama.MetadataResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.brokers = map[int32]string{}
	for _, b := range r.Brokers {
		c.mu.brokers[b.ID()] = b.Addr()
	}
	var errs []error
	for _, t := range r.Topics {
		known, wanted := c.mu.topics[t.Name]
		if !wanted {
			continue
		}
		code := t.Err
		if code == sarama.ErrNoError && len(t.Partitions) == 0 {
			code = sarama.ErrLeaderNotAvailable // just created
		}
		if code != sarama.ErrNoError {
			delete(c.mu.topics, t.Name)
			errs = append(errs, &Error{Op: "look up topic " + t.Name, Code: code})
			continue
		}
		c.mu.topics[t.Name] = topicOf(t, known)
	}
	return errors.Join(errs...)
}

// topicOf takes over what the metadata says. Brokers learn of changes one after the other: where the answer knows a
// partition at an older epoch than an earlier answer did, the earlier one stands.
func topicOf(t *sarama.TopicMetadata, known *Topic) *Topic {
	topic := &Topic{Name: t.Name, ID: t.Uuid, Partitions: make([]Partition, len(t.Partitions))}
	for i := range topic.Partitions {
		topic.Partitions[i] = Partition{ID: int32(i), Leader: -1, LeaderEpoch: -1}
	}
	for _, p := range t.Partitions {
		if int(p.ID) < len(topic.Partitions) {
			topic.Partitions[p.ID] = Partition{p.ID, p.Leader, p.LeaderEpoch, p.Replicas, p.Isr}
		}
	}
	if known == nil || known.ID != topic.ID {
		return topic
	}
	for i, old := range known.Partitions {
		if i < len(topic.Partitions) && old.LeaderEpoch > topic.Partitions[i].LeaderEpoch {
			topic.Partitions[i] = old
		}
	}
	return topic
}
