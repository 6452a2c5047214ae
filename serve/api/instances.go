package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// GetInstances shows who shares stores.
var GetInstances = operation.View[operation.None, Instances]("getInstances", "instances",
	"Show the instances that share stores with this one: each says every 15 seconds that it is there, and how its pipelines stand. Those that are gone are shown for a day.").For(caller.Viewer)

// Instances are those that share stores.
type Instances struct {
	This      string     `json:"this"`      // the instance that answers
	Instances []Instance `json:"instances"` // this one first, then the newest started
	AsOf      time.Time  `json:"as_of"`
}

// Instance is one process.
type Instance struct {
	ID        string             `json:"id"` // made anew at each start
	Host      string             `json:"host,omitempty"`
	Version   string             `json:"version"`
	State     string             `json:"state"` // there, gone (it has not said so for 45 seconds), ended
	Started   time.Time          `json:"started"`
	Seen      time.Time          `json:"seen_at"`
	Memory    uint64             `json:"memory_bytes"` // that it holds of its machine
	Systems   []string           `json:"systems"`
	Pipelines []InstancePipeline `json:"pipelines"`
	Described uint64             `json:"described,omitempty"` // the version of the descriptions that instances share which is in force in it
	Refused   string             `json:"refused,omitempty"`   // why the newest descriptions that instances share are not in force in it
}

// InstancePipeline is a pipeline of an instance.
type InstancePipeline struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	InFlight int    `json:"in_flight"`
	Lanes    int    `json:"lanes"`
	Breaker  string `json:"breaker,omitempty"`
	Error    string `json:"last_error,omitempty"` // where there were errors in a row
}
