// Package lazyjson reads single members of a JSON object straight from its bytes, without building a tree. The whole text
// is checked for structure in the same pass, so that a damaged document is found whichever members are asked for.
package lazyjson

import (
	"bytes"
	"fmt"
)

// maxDepth bounds how deep objects and arrays may nest; deeper text is refused rather than recursed into.
const maxDepth = 200

// SyntaxError tells where a text stops being JSON.
type SyntaxError struct {
	// Offset is the byte at which the fault lies, from 0.
	Offset int
	// Want says what could stand there.
	Want string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON: want %s at byte %d", e.Want, e.Offset)
}

// Fields finds members of the JSON object data: out[i] becomes the text of the member called names[i], as a view into
// data, or nil where there is none. Of members with one name the last counts, as in encoding/json. A text that is
// JSON but no object has no members.
func Fields(data []byte, names []string, out [][]byte) error {
	clear(out)
	s := scanner{data: data}
	s.space()
	var err error
	if s.peek() == '{' {
		err = s.object(0, func(key, value []byte) { assign(key, value, names, out) })
	} else {
		err = s.value(0)
	}
	if err != nil {
		return err
	}
	return s.end()
}

func assign(quoted, value []byte, names []string, out [][]byte) {
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		key, _ = Unquote(nil, quoted)
	}
	for i, name := range names {
		if string(key) == name {
			out[i] = value
			return
		}
	}
}

// Elements calls f with the text of each element of the JSON array data, in order, until f returns an error.
func Elements(data []byte, f func(element []byte) error) error {
	s := scanner{data: data}
	s.space()
	if s.peek() != '[' {
		return s.fault("an array")
	}
	var inner error
	err := s.array(0, func(element []byte) {
		if inner == nil {
			inner = f(element)
		}
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return err
	}
	return inner
}

// scanner walks over JSON text. at is the next byte to look at.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) fault(want string) error { return &SyntaxError{Offset: s.at, Want: want} }

// peek returns the next byte, 0 at the end of the text (which no valid text contains outside of strings).
func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) end() error {
	s.space()
	if s.at != len(s.data) {
		return s.fault("the end of the text")
	}
	return nil
}

// value steps over one value of any kind.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.array(depth, nil)
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.fault("a value")
}

func (s *scanner) word(w string) error {
	if s.at+len(w) > len(s.data) || string(s.data[s.at:s.at+len(w)]) != w {
		return s.fault(w)
	}
	s.at += len(w)
	return nil
}

// str steps over a string, quotes included.
func (s *scanner) str() error {
	start := s.at
	s.at++
	for {
		n := bytes.IndexByte(s.data[s.at:], '"')
		if n < 0 {
			s.at = start
			return s.fault("a closing quote for the string")
		}
		s.at += n + 1
		if !escaped(s.data[start+1 : s.at-1]) {
			return nil
		}
	}
}

// escaped says whether the quote behind text is escaped: an odd number of backslashes stands before it.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.at++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	if s.at == start {
		return s.fault("a digit")
	}
	return nil
}

// object steps over an object and calls member, where that is not nil, with the quoted name and the text of each value.
func (s *scanner) object(depth int, member func(key, value []byte)) error {
	if depth++; depth > maxDepth {
		return s.fault("less deeply nested text")
	}
	s.at++
	s.space()
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		s.space()
		if s.peek() != '"' {
			return s.fault("a member name")
		}
		key := s.at
		if err := s.str(); err != nil {
			return err
		}
		keyEnd := s.at
		s.space()
		if s.peek() != ':' {
			return s.fault("':'")
		}
		s.at++
		s.space()
		start := s.at
		if err := s.value(depth); err != nil {
			return err
		}
		if member != nil {
			member(s.data[key:keyEnd], s.data[start:s.at])
		}
		if more, err := s.next('}', "',' or '}'"); !more {
			return err
		}
	}
}

// array steps over an array and calls element, where that is not nil, with the text of each element.
func (s *scanner) array(depth int, element func([]byte)) error {
	if depth++; depth > maxDepth {
		return s.fault("less deeply nested text")
	}
	s.at++
	s.space()
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for {
		s.space()
		start := s.at
		if err := s.value(depth); err != nil {
			return err
		}
		if element != nil {
			element(s.data[start:s.at])
		}
		if more, err := s.next(']', "',' or ']'"); !more {
			return err
		}
	}
}

// next steps over the comma before a further member, or over the closing bracket.
func (s *scanner) next(closing byte, want string) (more bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.at++
		return true, nil
	case closing:
		s.at++
		return false, nil
	}
	return false, s.fault(want)
}

// Members calls f with the unquoted name and the text of each member of the JSON object data, in order, until f returns
// an error. The name is valid during the call.
func Members(data []byte, f func(name, value []byte) error) error {
	s := scanner{data: data}
	s.space()
	if s.peek() != '{' {
		return s.fault("an object")
	}
	var inner error
	err := s.object(0, func(quoted, value []byte) {
		if inner != nil {
			return
		}
		var name []byte
		if name, inner = Unquote(nil, quoted); inner == nil {
			inner = f(name, value)
		}
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return err
	}
	return inner
}

// Value checks data for structure and returns it without the space around it.
func Value(data []byte) ([]byte, error) {
	if err := Fields(data, nil, nil); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(data), nil
}
