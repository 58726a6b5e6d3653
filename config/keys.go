package config

import (
	"reflect"
	"strings"
	"time"
)

// Type is the form of a value.
type Type string

// The types of settings.
const (
	Text     Type = "text"
	Bool     Type = "true or false"
	Int      Type = "number"
	Duration Type = "duration"
	Bytes    Type = "size"
	List     Type = "list of texts"
)

// Key describes one setting.
type Key struct {
	// Path leads from the top of the file, with dots: kafka.sasl.password.
	Path string
	Type Type
	// Default, Min and Max are written as in a file.
	Default, Min, Max string
	Enum              []string
	Secret            bool
	// Flag is the name of the command line flag, "" where there is none.
	Flag string
	// Meaning is for the reference.
	Meaning string

	index []int // the field of Config
}

// Environment is the variable that sets the key.
func (k *Key) Environment() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "__"))
}

const envPrefix = "WEIR__"

// FileTwin is the key that names a file to read a secret from.
func (k *Key) FileTwin() string { return k.Path + "_file" }

// Keys describes all settings, in the order of the Config struct.
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), "", nil) }

func keysOf(t reflect.Type, prefix string, index []int) []Key {
	var keys []Key
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := f.Tag.Lookup("key")
		if !ok {
			continue
		}
		at := append(append([]int(nil), index...), i)
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, prefix+name+".", at)...)
			continue
		}
		k := Key{
			Path: prefix + name, Type: typeOf(f.Type), Default: f.Tag.Get("default"), Min: f.Tag.Get("min"),
			Max: f.Tag.Get("max"), Secret: f.Tag.Get("secret") == "true", Flag: f.Tag.Get("flag"),
			Meaning: f.Tag.Get("doc"), index: at,
		}
		if enum, ok := f.Tag.Lookup("enum"); ok {
			k.Enum = strings.Split(enum, "|")
		}
		keys = append(keys, k)
	}
	return keys
}

func typeOf(t reflect.Type) Type {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return Duration
	case reflect.TypeFor[Size]():
		return Bytes
	}
	switch t.Kind() {
	case reflect.Bool:
		return Bool
	case reflect.Int:
		return Int
	case reflect.Slice:
		return List
	}
	return Text
}

// field is the field of c that k describes.
func (k *Key) field(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }
