package lazyjson

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote appends the characters of the JSON string quoted, which includes its quotes, to dst.
func Unquote(dst, quoted []byte) ([]byte, error) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return nil, &SyntaxError{Want: "a string"}
	}
	text := quoted[1 : len(quoted)-1]
	for {
		n := bytes.IndexByte(text, '\\')
		if n < 0 {
			return append(dst, text...), nil
		}
		dst = append(dst, text[:n]...)
		var size int
		if dst, size = unescape(dst, text[n:]); size == 0 {
			return nil, &SyntaxError{Offset: len(quoted) - 1 - len(text) + n, Want: "a known escape sequence"}
		}
		text = text[n+size:]
	}
}

// unescape appends what the escape sequence at the start of text stands for and returns its length, 0 if it is none.
func unescape(dst, text []byte) ([]byte, int) {
	if len(text) < 2 {
		return dst, 0
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := bytes.IndexByte([]byte(from), text[1]); i >= 0 {
		return append(dst, to[i]), 2
	}
	r, ok := unicodeEscape(text)
	if !ok {
		return dst, 0
	}
	if utf16.IsSurrogate(r) {
		if low, ok := unicodeEscape(text[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(dst, pair), 12
			}
		}
	}
	return utf8.AppendRune(dst, r), 6
}

func unicodeEscape(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends text as a JSON string. Bytes that are not UTF-8 become the replacement character, as in
// encoding/json; nothing else is escaped that need not be.
func AppendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == '"' || c == '\\' {
				dst = appendEscape(append(dst, text[start:i]...), c)
				start = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(append(dst, text[start:i]...), "\ufffd"...)
			start = i + 1
		}
		i += size
	}
	return append(append(dst, text[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
