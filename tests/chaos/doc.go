// Package chaos holds the tests that kill, pause and cut off a running job, and everything that it depends on, and then ask
// whether each record had its effect exactly once.
//
// The job is the weir binary in a process of its own, on a three-node Kafka behind fault proxies. Views are fed without a
// pause; internal/verify follows the output and judges it. Two kinds of test:
//
//   - TestAtMoments kills the job at a chosen request of the commit protocol, which the proxy recognises: before the broker has
//     it, after the broker has carried it out, or with the request still on its way when the successor is at work.
//   - TestAtRandom draws faults from all kinds. SEED repeats a run's choices, FAULTS sets their number: FAULTS=150 takes about
//     half an hour.
package chaos
