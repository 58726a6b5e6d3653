package admin

import (
	"slices"
)

func sourceSeries() []series {
	labels := []string{"source", "topic"}
	of := group[SourcePartition]{
		items:  func(s *Status) []SourcePartition { return s.Sources },
		labels: func(p SourcePartition) []string { return []string{p.Source, p.Topic} },
	}
	return []series{
		{name: "weir_source_records_total", counter: true, labels: labels, help: "Records handed to the operators.",
			read: of.sum(func(p SourcePartition) int64 { return p.Records })},
		{name: "weir_source_bytes_total", counter: true, labels: labels, help: "Bytes handed to the operators.",
			read: of.sum(func(p SourcePartition) int64 { return p.Bytes })},
		{name: "weir_source_partitions", labels: labels, help: "Partitions that are read.",
			read: of.sum(func(SourcePartition) int64 { return 1 })},
		{name: "weir_source_lag_records", labels: labels, help: "Offsets between what was fetched and the end of the log, over all partitions.",
			read: of.sum(func(p SourcePartition) int64 { return p.Lag })},
		{name: "weir_source_lag_max_records", labels: labels, help: "The same, of the partition that is furthest behind.",
			read: of.most(func(p SourcePartition) int64 { return p.Lag })},
	}
}

func outputSeries() []series {
	labels := []string{"output", "topic"}
	of := group[Output]{
		items:  func(s *Status) []Output { return s.Outputs },
		labels: func(o Output) []string { return []string{o.Output, o.Topic} },
	}
	return []series{
		{name: "weir_output_records_total", counter: true, labels: labels, help: "Records that the brokers have acknowledged.",
			read: of.sum(func(o Output) int64 { return o.Records })},
		{name: "weir_output_bytes_total", counter: true, labels: labels, help: "Bytes that the brokers have acknowledged.",
			read: of.sum(func(o Output) int64 { return o.Bytes })},
	}
}

func subtaskSeries() []series {
	of := group[Subtask]{items: func(s *Status) []Subtask { return s.Subtasks }, labels: func(Subtask) []string { return nil }}
	return slices.Concat(
		[]series{{name: "weir_subtasks", help: "Subtasks of this instance.", read: of.sum(func(Subtask) int64 { return 1 })}},
		bufferSeries("weir_prefetch", "what is fetched and not processed", nil, of, func(t Subtask) Buffer { return t.Prefetch }),
		bufferSeries("weir_produce_buffer", "what is processed and not acknowledged", nil, of, func(t Subtask) Buffer { return t.Produce }),
	)
}

func channelSeries() []series {
	of := group[Channel]{
		items: func(s *Status) []Channel { return s.Channels }, labels: func(c Channel) []string { return []string{c.Edge} },
	}
	return bufferSeries("weir_channel", "what is on its way between subtasks", []string{"edge"}, of,
		func(c Channel) Buffer { return c.Buffer })
}

// bufferSeries are the three metrics of each kind of bounded buffer.
func bufferSeries[T any](name, what string, labels []string, of group[T], buffer func(T) Buffer) []series {
	return []series{
		{name: name + "_bytes", labels: labels, help: "Memory of " + what + ", over all subtasks.",
			read: of.sum(func(t T) int64 { return buffer(t).Bytes })},
		{name: name + "_limit_bytes", labels: labels, help: "Bound of " + name + "_bytes.",
			read: of.sum(func(t T) int64 { return buffer(t).LimitBytes })},
		{name: name + "_full", labels: labels, help: "How many of these buffers are full, so that whoever fills them waits.",
			read: of.sum(func(t T) int64 { return int64(truth(buffer(t).Full)) })},
	}
}

func stateSeries() []series {
	labels := []string{"operator"}
	of := group[OperatorState]{
		items: func(s *Status) []OperatorState { return s.States }, labels: func(o OperatorState) []string { return []string{o.Operator} },
	}
	return []series{
		{name: "weir_state_entries", labels: labels, help: "Entries of keyed state that memory holds.",
			read: of.sum(func(o OperatorState) int64 { return o.Entries })},
		{name: "weir_state_bytes", labels: labels, help: "Memory of keyed state.",
			read: of.sum(func(o OperatorState) int64 { return o.Bytes })},
		{name: "weir_state_dirty_bytes", labels: labels, help: "Size of the changes that the last checkpoint froze.",
			read: of.sum(func(o OperatorState) int64 { return o.DirtyBytes })},
		{name: "weir_state_frozen_bytes", labels: labels, help: "Size of frozen changes that are not durable yet.",
			read: of.sum(func(o OperatorState) int64 { return o.FrozenBytes })},
	}
}
