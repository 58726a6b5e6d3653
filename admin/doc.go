// Package admin is what a running job shows of itself: an HTTP server with health, readiness, Prometheus metrics and the
// job's status as a JSON document, and the client of that document.
//
// The package imports nothing of the project. Whoever runs a job implements Job, whose one method returns a Status: a
// picture that is put together from the running parts whenever somebody asks. Almost all metrics are rendered from that same
// picture, so that the two cannot contradict each other and no hot path counts anything twice. Only what is an event with a
// duration, such as a phase of a checkpoint, is told to Metrics as it happens.
//
// The status has its version, SchemaVersion. Names in it are never changed or reused; new ones may be added.
package admin
