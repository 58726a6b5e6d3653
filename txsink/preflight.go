package txsink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/weirstream/weir/internal/kafka"
)

// PreflightOptions say what a job is going to use.
type PreflightOptions struct {
	Inputs, Outputs []string
	// Ledger is the topic of the witness, which Preflight creates where it is absent.
	Ledger             string
	TransactionTimeout time.Duration
	// Transactional says that results are written in transactions; otherwise there is no ledger.
	Transactional bool
}

// Preflight checks, before anything is read or written, that the cluster fits the job: topics, leaders, rights, the
// ledger, and the brokers' settings that transactions depend on. err joins all faults, each of one line with its cure;
// warnings tell what can lose results on a bad day. What a broker does not report is no fault.
func Preflight(ctx context.Context, cluster *kafka.Cluster, o PreflightOptions) (warnings []string, err error) {
	p := &preflight{cluster: cluster, opts: o}
	if o.Transactional {
		p.createLedger(ctx)
	}
	p.checkTopics(ctx)
	if o.Transactional {
		p.checkLedger(ctx)
		p.checkBrokers(ctx)
	}
	p.checkReplication(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return p.warnings, errors.Join(p.faults...)
}

// preflight gathers what Preflight finds.
type preflight struct {
	cluster  *kafka.Cluster
	opts     PreflightOptions
	warnings []string
	faults   []error
	// present are the topics that exist.
	present []*kafka.Topic
}

func (p *preflight) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

func (p *preflight) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

// unread says why something was not checked: an error of the check, not of what it looks at.
func (p *preflight) unread(what string, err error) {
	if err != nil {
		p.warn("%s not checked: %v", what, err)
	}
}

// topicWanted is a topic and what the job does with it.
type topicWanted struct {
	name, role string
	rights     []kafka.Right
}

func (p *preflight) wanted() []topicWanted {
	var all []topicWanted
	for _, t := range p.opts.Inputs {
		all = append(all, topicWanted{t, "input", []kafka.Right{kafka.Read}})
	}
	for _, t := range p.opts.Outputs {
		all = append(all, topicWanted{t, "output", []kafka.Right{kafka.Write}})
	}
	if p.opts.Transactional {
		all = append(all, topicWanted{p.opts.Ledger, "ledger", []kafka.Right{kafka.Read, kafka.Write}})
	}
	return all
}

// checkTopics looks for each topic, its leaders and the rights on it.
func (p *preflight) checkTopics(ctx context.Context) {
	var names []string
	for _, w := range p.wanted() {
		names = append(names, w.name)
	}
	_ = p.cluster.Refresh(ctx, names...) // what is wrong with a topic is said below, for each
	rights, err := p.cluster.Rights(ctx, names...)
	p.unread("the rights on topics were", err)
	for _, w := range p.wanted() {
		t, err := p.cluster.Topic(ctx, w.name)
		if err != nil {
			p.topicMissing(w, err)
			continue
		}
		p.present = append(p.present, t)
		p.checkLeaders(w, t)
		r, told := rights[w.name]
		for _, right := range w.rights {
			if told && !r.Has(right) {
				p.fault("%s topic %s: the right %s on the topic is missing; grant it to this user", w.role, w.name, right)
			}
		}
	}
}

// topicMissing says once why a topic cannot be used; the ledger's creation may have told already.
func (p *preflight) topicMissing(w topicWanted, err error) {
	if w.role != "ledger" || len(p.faults) == 0 {
		p.fault("%s topic %s: %w", w.role, w.name, err)
	}
}

func (p *preflight) checkLeaders(w topicWanted, t *kafka.Topic) {
	var without []string
	for _, part := range t.Partitions {
		if _, _, err := p.cluster.Leader(t.Name, part.ID); err != nil {
			without = append(without, strconv.Itoa(int(part.ID)))
		}
	}
	if len(without) > 0 {
		p.fault("%s topic %s: partitions without a leader: %s; start the brokers that hold them", w.role, t.Name, strings.Join(without, ", "))
	}
}

// The brokers' settings that transactions depend on.
const (
	maxTimeoutSetting   = "transaction.max.timeout.ms"
	verificationSetting = "transaction.partition.verification.enable"
	uncleanSetting      = "unclean.leader.election.enable"
	minISRSetting       = "min.insync.replicas"
	replicasSetting     = "default.replication.factor"
)

// finding is what is wrong with some brokers, or some topics, all in the same way.
type finding struct {
	text  string
	fault bool
	where []string
}

// findings are those of all brokers or topics, in the order in which they came up.
type findings []*finding

func (f *findings) add(where string, fault bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, known := range *f {
		if known.text == text {
			known.where = append(known.where, where)
			return
		}
	}
	*f = append(*f, &finding{text, fault, []string{where}})
}

// tell has a line for each finding, which names all that it is about.
func (p *preflight) tell(kind string, found findings) {
	for _, f := range found {
		tell := p.warn
		if f.fault {
			tell = p.fault
		}
		plural := ""
		if len(f.where) > 1 {
			plural = "s"
		}
		tell("%s%s %s: %s", kind, plural, strings.Join(f.where, ", "), f.text)
	}
}

// checkBrokers looks at each broker, since any may come to coordinate or lead.
func (p *preflight) checkBrokers(ctx context.Context) {
	var found findings
	for _, id := range p.cluster.BrokerIDs() {
		p.checkRelease(ctx, id, &found)
		s, err := p.cluster.BrokerSettings(ctx, id, maxTimeoutSetting, verificationSetting, uncleanSetting)
		if err != nil {
			p.unread(fmt.Sprintf("the settings of broker %d were", id), err)
			continue
		}
		p.checkBroker(strconv.Itoa(int(id)), s, &found)
	}
	p.tell("broker", found)
}

func (p *preflight) checkBroker(id string, s kafka.Settings, found *findings) {
	longest, err := strconv.ParseInt(s[maxTimeoutSetting], 10, 64)
	if want := p.opts.TransactionTimeout; err == nil && longest < want.Milliseconds() {
		found.add(id, true, "%s is %d (%v), kafka.transaction_timeout is %v; raise the first or lower the second",
			maxTimeoutSetting, longest, time.Duration(longest)*time.Millisecond, want)
	}
	if s[verificationSetting] == "false" {
		found.add(id, true, "%s is false; set it to true, or a late write can stay undecided and stop all readers of a partition", verificationSetting)
	}
	if s[uncleanSetting] == "true" {
		found.add(id, false, "%s is true: a replica that has missed committed results may become leader; set it to false", uncleanSetting)
	}
}

// metadataLevel43 is the level of the feature metadata.version that release 4.3 brought
// (org.apache.kafka.server.common.MetadataVersion, IBP_4_3_IV0).
const metadataLevel43 = 30

// checkRelease warns of a release that ends transactions without the marker of a leaderless partition.
func (p *preflight) checkRelease(ctx context.Context, id int32, found *findings) {
	level, err := p.cluster.FeatureLevel(ctx, id, "metadata.version")
	p.unread(fmt.Sprintf("the release of broker %d was", id), err)
	if level == metadataLevel43 {
		found.add(strconv.Itoa(int(id)), false, "Kafka 4.3 may end a transaction without its marker in a partition that has no leader (KAFKA-20734); "+
			"Weir repairs its own, other producers do not: use replication factor 3 and min.insync.replicas 2")
	}
}

// What topics of a job should have.
const (
	goodReplicas = 3
	goodMinISR   = 2
)

// transactionLog is where the brokers keep the state of transactions.
const transactionLog = "__transaction_state"

// checkReplication warns of topics that lose results, or the knowledge of them, with one broker or two.
func (p *preflight) checkReplication(ctx context.Context) {
	var topics []*kafka.Topic
	for _, t := range p.present {
		if !slices.Contains(p.opts.Inputs, t.Name) || slices.Contains(p.opts.Outputs, t.Name) {
			topics = append(topics, t)
		}
	}
	if p.opts.Transactional {
		topics = p.addTransactionLog(ctx, topics)
	}
	var names []string
	for _, t := range topics {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return
	}
	settings, err := p.cluster.TopicSettings(ctx, names, minISRSetting)
	p.unread(minISRSetting+" was", err)
	var found findings
	for _, t := range topics {
		checkReplicas(t, settings[t.Name], &found)
	}
	p.tell("topic", found)
}

// addTransactionLog adds the brokers' own topic where it exists already and may be seen.
func (p *preflight) addTransactionLog(ctx context.Context, topics []*kafka.Topic) []*kafka.Topic {
	t, err := p.cluster.Topic(ctx, transactionLog)
	switch {
	case errors.Is(err, sarama.ErrUnknownTopicOrPartition): // it appears with the first transaction
		return topics
	case err != nil:
		p.unread("the replication of "+transactionLog+" was", err)
		return topics
	}
	return append(topics, t)
}

func checkReplicas(t *kafka.Topic, s kafka.Settings, found *findings) {
	fewest := goodReplicas
	for _, part := range t.Partitions {
		fewest = min(fewest, len(part.Replicas))
	}
	var thin []string
	if fewest < goodReplicas {
		thin = append(thin, fmt.Sprintf("replication factor %d, should be %d", fewest, goodReplicas))
	}
	if least, err := strconv.Atoi(s[minISRSetting]); err == nil && least < goodMinISR {
		thin = append(thin, fmt.Sprintf("%s %d, should be %d", minISRSetting, least, goodMinISR))
	}
	if len(thin) > 0 {
		found.add(t.Name, false, "%s: the loss of a broker can take acknowledged records with it", strings.Join(thin, "; "))
	}
}
