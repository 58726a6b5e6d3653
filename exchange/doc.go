// Package exchange moves batches and barriers between subtasks, in order and within bounds.
//
// A Channel leads from one subtask to another and has one sender and one receiver. Neither ever blocks: a sender asks
// Full before it takes on work whose results go into the channel, a receiver takes what is there, and each side is
// woken when that answer changes. Barriers travel in the same queue as batches, so their place between the records is
// structural. What a full channel stops is the work of its sender, which is backpressure; it cannot deadlock, because
// the last chains of a subtask never wait for the first ones (see package task).
package exchange
