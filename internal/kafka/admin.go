package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// Settings are configuration values by name. What a broker does not report has no entry.
type Settings map[string]string

// BrokerIDs returns the ids of all known brokers, in order.
func (c *Cluster) BrokerIDs() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.mu.brokers))
}

// onBroker makes one request to the broker with an id.
func onBroker[T any](ctx context.Context, c *Cluster, id int32, request func(*sarama.Broker) (T, error)) (T, error) {
	c.mu.Lock()
	addr, known := c.mu.brokers[id]
	c.mu.Unlock()
	if !known {
		var none T
		return none, fmt.Errorf("broker %d is not known", id)
	}
	resp, err := Call(ctx, c, Control, addr, request)
	if err != nil {
		err = fmt.Errorf("broker %d at %s: %w", id, addr, err)
	}
	return resp, err
}

// TopicSettings asks for the named settings of topics. The result holds what could be read, also beside an error; the right
// needed is DescribeConfigs on each topic.
func (c *Cluster) TopicSettings(ctx context.Context, topics []string, names ...string) (map[string]Settings, error) {
	req := &sarama.DescribeConfigsRequest{Version: 2}
	for _, t := range topics {
		req.Resources = append(req.Resources, &sarama.ConfigResource{Type: sarama.TopicResource, Name: t, ConfigNames: names})
	}
	resp, err := AnyBroker(ctx, c, func(b *sarama.Broker) (*sarama.DescribeConfigsResponse, error) { return b.DescribeConfigs(req) })
	if err != nil {
		return nil, fmt.Errorf("read the settings of topics: %w", err)
	}
	return settingsOf(resp, "topic ")
}

// BrokerSettings asks a broker for the named settings that are in force there. The right needed is DescribeConfigs on the
// cluster.
func (c *Cluster) BrokerSettings(ctx context.Context, id int32, names ...string) (Settings, error) {
	name := fmt.Sprint(id)
	req := &sarama.DescribeConfigsRequest{Version: 2, Resources: []*sarama.ConfigResource{
		{Type: sarama.BrokerResource, Name: name, ConfigNames: names},
	}}
	resp, err := onBroker(ctx, c, id, func(b *sarama.Broker) (*sarama.DescribeConfigsResponse, error) { return b.DescribeConfigs(req) })
	if err != nil {
		return nil, fmt.Errorf("read the settings of a broker: %w", err)
	}
	all, err := settingsOf(resp, "broker ")
	return all[name], err
}

// settingsOf sorts an answer by resource.
func settingsOf(resp *sarama.DescribeConfigsResponse, kind string) (map[string]Settings, error) {
	all := map[string]Settings{}
	var errs []error
	for _, r := range resp.Resources {
		if code := sarama.KError(r.ErrorCode); code != sarama.ErrNoError {
			errs = append(errs, &Error{Op: "read the settings of " + kind + r.Name, Code: code})
			continue
		}
		s := Settings{}
		for _, e := range r.Configs {
			s[e.Name] = e.Value
		}
		all[r.Name] = s
	}
	return all, errors.Join(errs...)
}

// NewTopic is a topic to create. Replicas -1 leaves the replication factor to the brokers.
type NewTopic struct {
	Name       string
	Partitions int32
	Replicas   int16
	Settings   Settings
}

// createTimeout is how long the brokers may take to create a topic.
const createTimeout = 5 * time.Second

// CreateTopic creates a topic. It does not wait for its leaders. The right needed is Create on the topic or the cluster.
func (c *Cluster) CreateTopic(ctx context.Context, t NewTopic) error {
	detail := &sarama.TopicDetail{NumPartitions: t.Partitions, ReplicationFactor: t.Replicas, ConfigEntries: map[string]*string{}}
	for k, v := range t.Settings {
		detail.ConfigEntries[k] = &v
	}
	req := &sarama.CreateTopicsRequest{Version: 5, TopicDetails: map[string]*sarama.TopicDetail{t.Name: detail}, Timeout: createTimeout}
	var err error
	for _, id := range c.BrokerIDs() { // most brokers hand the request on to the controller, some want it to be sent there
		err = c.createVia(ctx, id, t.Name, req)
		if !errors.Is(err, sarama.ErrNotController) {
			break
		}
	}
	return err
}

func (c *Cluster) createVia(ctx context.Context, id int32, topic string, req *sarama.CreateTopicsRequest) error {
	op := "create topic " + topic
	resp, err := onBroker(ctx, c, id, func(b *sarama.Broker) (*sarama.CreateTopicsResponse, error) { return b.CreateTopics(req) })
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	e := resp.TopicErrors[topic]
	if e == nil || e.Err == sarama.ErrNoError {
		return nil
	}
	err = &Error{Op: op, Code: e.Err}
	if e.ErrMsg != nil {
		err = fmt.Errorf("%w: %s", err, *e.ErrMsg)
	}
	return err
}

// FeatureLevel returns the highest level of a feature that a broker knows, such as "metadata.version", which tells the
// broker's release; 0 where it does not say.
func (c *Cluster) FeatureLevel(ctx context.Context, id int32, feature string) (int16, error) {
	req := &sarama.ApiVersionsRequest{Version: 3, ClientSoftwareName: "weir", ClientSoftwareVersion: "1"}
	resp, err := onBroker(ctx, c, id, func(b *sarama.Broker) (*sarama.ApiVersionsResponse, error) { return b.ApiVersions(req) })
	if err != nil {
		return 0, fmt.Errorf("ask for the features: %w", err)
	}
	for _, f := range resp.SupportedFeatures {
		if f.Name == feature {
			return f.MaxVersion, nil
		}
	}
	return 0, nil
}

// Right is something that may be done to a topic, numbered as in Kafka's protocol
// (org.apache.kafka.common.acl.AclOperation).
type Right uint8

// The rights that Weir needs.
const (
	Read  Right = 3
	Write Right = 4
)

// String is the right's name as Kafka's tools write it.
func (r Right) String() string {
	if r == Read {
		return "Read"
	}
	return "Write"
}

// Rights are what this user may do to a topic; the zero value may do nothing.
type Rights struct {
	bits    int32
	unknown bool
}

// Has says whether a right is granted, or not to be told.
func (r Rights) Has(right Right) bool { return r.unknown || r.bits&(1<<right) != 0 }

// unknownRights is what a broker answers that does not tell (MetadataResponse, TopicAuthorizedOperations).
const unknownRights = -1 << 31

// Rights asks what this user may do to topics. Topics that it may not even see have no entry.
func (c *Cluster) Rights(ctx context.Context, topics ...string) (map[string]Rights, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	req := &sarama.MetadataRequest{Version: 11, Topics: topics, IncludeTopicAuthorizedOperations: true}
	resp, err := AnyBroker(ctx, c, func(b *sarama.Broker) (*sarama.MetadataResponse, error) { return b.GetMetadata(req) })
	if err != nil {
		return nil, fmt.Errorf("ask for the rights on topics: %w", err)
	}
	all := map[string]Rights{}
	for _, t := range resp.Topics {
		if t.Err == sarama.ErrNoError || t.Err == sarama.ErrLeaderNotAvailable {
			bits := t.TopicAuthorizedOperations
			all[t.Name] = Rights{bits: bits, unknown: bits == unknownRights || bits == 0}
		}
	}
	return all, nil
}
