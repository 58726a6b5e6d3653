//go:build integration

package main

import (
	"testing"

	"github.com/weirstream/weir/tests/kafkatest"
)

func TestFault43ASecondInstanceRefusesOnKafka(t *testing.T) {
	secondInstance(t, newRigOn(t, kafkatest.Start(t).Endpoint))
}

func TestFault34AnOutputRecreatedUnderTheJobOnKafka(t *testing.T) {
	outputRecreated(newRigOn(t, kafkatest.Start(t).Endpoint))
}

func TestInstancesThatStartTogetherComeToOneOnKafka(t *testing.T) {
	togetherToOne(t, newRigOn(t, kafkatest.Start(t).Endpoint))
}
