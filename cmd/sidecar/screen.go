package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// writeTable writes rows in columns, the first row being the head. Nothing is written where there are no other rows.
func writeTable(w io.Writer, rows [][]string) error {
	if len(rows) < 2 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(t, strings.Join(r, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// screen knows what the output can show: colours and clearing only on a terminal, colours only without NO_COLOR.
type screen struct {
	w               io.Writer
	terminal, color bool
}

func newScreen(w io.Writer) screen {
	f, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	return screen{w: w, terminal: terminal, color: terminal && os.Getenv("NO_COLOR") == ""}
}

// clear begins a picture: on a terminal in place of the one before.
func (s screen) clear() error {
	text := "\n"
	if s.terminal {
		text = "\x1b[H\x1b[2J"
	}
	_, err := io.WriteString(s.w, text)
	return err
}

// Colours by their number in ANSI escapes.
const (
	red    = 31
	green  = 32
	yellow = 33
)

func (s screen) paint(color int, text string) string {
	if !s.color {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", color, text)
}
