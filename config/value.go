package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/weirstream/weir/internal/nearest"
)

// Size is a number of bytes.
type Size int64

// String writes s with the largest binary unit that divides it.
func (s Size) String() string {
	units := []struct {
		name  string
		bytes Size
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
	for _, u := range units {
		if s != 0 && s%u.bytes == 0 {
			return fmt.Sprint(int64(s/u.bytes)) + u.name
		}
	}
	return fmt.Sprint(int64(s))
}

func parseSize(text string) (Size, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%q is no size, expected one such as 64MiB", text)
	}
	return Size(n), nil
}

// parse reads text into the field that k describes.
func (k *Key) parse(text string, into reflect.Value) error {
	switch into.Interface().(type) {
	case string:
		return k.parseWord(text, into)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		into.SetBool(b)
		return nil
	}
	n, err := k.number(text)
	if err != nil {
		return err
	}
	if err := k.within(n); err != nil {
		return err
	}
	into.SetInt(n)
	return nil
}

func (k *Key) parseWord(text string, into reflect.Value) error {
	if len(k.Enum) > 0 && !slices.Contains(k.Enum, text) {
		return fmt.Errorf("%q is not known%s (expected %s)", text, nearest.Hint(text, k.Enum), strings.Join(k.words(), ", "))
	}
	into.SetString(text)
	return nil
}

// words are the allowed words but for the empty one.
func (k *Key) words() []string {
	return slices.DeleteFunc(slices.Clone(k.Enum), func(w string) bool { return w == "" })
}

// number reads a number of the key's type: a count, a duration in nanoseconds, a size in bytes.
func (k *Key) number(text string) (int64, error) {
	switch k.Type {
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration, expected one such as 500ms, 5s or 1m30s", text)
		}
		return int64(d), nil
	case Bytes:
		s, err := parseSize(text)
		return int64(s), err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number", text)
	}
	return n, nil
}

// within checks the bounds of a number.
func (k *Key) within(n int64) error {
	if least, ok := k.bound(k.Min); ok && n < least {
		return fmt.Errorf("%s is too little, expected %s", k.show(n), k.span())
	}
	if most, ok := k.bound(k.Max); ok && n > most {
		return fmt.Errorf("%s is too much, expected %s", k.show(n), k.span())
	}
	return nil
}

func (k *Key) bound(text string) (int64, bool) {
	if text == "" {
		return 0, false
	}
	n, err := k.number(text)
	return n, err == nil
}

func (k *Key) span() string {
	if k.Max == "" {
		return "at least " + k.Min
	}
	return k.Min + " to " + k.Max
}

func (k *Key) show(n int64) string {
	switch k.Type {
	case Duration:
		return time.Duration(n).String()
	case Bytes:
		return Size(n).String()
	}
	return fmt.Sprint(n)
}

var errList = errors.New("is empty, expected at least one entry")

// parseList reads the entries of a list.
func (k *Key) parseList(entries []string, into reflect.Value) error {
	list := []string{}
	for _, e := range entries {
		if e = strings.TrimSpace(e); e != "" {
			list = append(list, e)
		}
	}
	if len(list) == 0 && k.Default != "" {
		return errList
	}
	into.Set(reflect.ValueOf(list))
	return nil
}
