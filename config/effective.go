package config

import (
	"fmt"
	"strings"
)

// Setting is the value of one key as it holds, for show.
type Setting struct {
	Key string `json:"key"`
	// Value is written as in a file. A secret that is set shows as stars.
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

const redacted = "********"

// Settings lists the values that hold, in the order of the reference.
func (c *Config) Settings() []Setting {
	var list []Setting
	for _, k := range Keys() {
		value := c.show(&k)
		if k.Secret && value != "" {
			value = redacted
		}
		list = append(list, Setting{Key: k.Path, Value: value, Origin: c.origins[k.Path].String()})
	}
	return list
}

func (c *Config) show(k *Key) string {
	if list, ok := k.field(c).Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(k.field(c).Interface())
}

// Origin tells where the value of a key comes from.
func (c *Config) Origin(key string) Origin { return c.origins[key] }
