package config

import (
	"fmt"
	"strings"
)

const referenceHead = "# Configuration\n" + `
<!-- Written by "go test ./config -run TestReference -update" from the tags of config.Config. -->

A pipeline file is YAML and holds the settings of an instance together with the pipeline. ` + "`weir init`" + ` writes one to
start from, ` + "`weir validate`" + ` checks it, ` + "`weir config`" + ` shows the values that hold and where each comes from.

- A flag comes before the environment, the environment before the file, the file before the default.
- The variable of a key is its path in capitals with two underscores between the levels: ` + "`WEIR__KAFKA__BROKERS`" + ` is
  ` + "`kafka.brokers`" + `. Lists are separated by commas. A variable that starts with ` + "`WEIR__`" + ` and names no key is refused.
- Values may refer to the environment: ` + "`${NAME}`" + `, or ` + "`${NAME:default}`" + ` where the variable may be unset; ` + "`$${`" + ` stands
  for ` + "`${`" + ` itself.
- Durations have a unit: ` + "`250ms`, `5s`, `1m30s`" + `. Sizes may have one: ` + "`900000`, `64KiB`, `256MiB`" + `.
- A secret may be read from a file: ` + "`password_file`" + ` in place of ` + "`password`" + `.
- An unknown key is refused. Everything that is wrong with a file is reported at once, and the exit status is 2.

[pipeline.schema.json](pipeline.schema.json) describes the file for editors. With the YAML language server, begin a file with
` + "`# yaml-language-server: $schema=…/docs/pipeline.schema.json`" + `.
`

const pipelineHead = `
## Pipeline

Sources, operators and sinks have names of your own: letters, digits, underscore and dash. State and metrics are bound to the
names of operators, so a name stays while a job goes on.

Expressions are written in the language of [expr](https://expr-lang.org/docs/language-definition). They see the record as
` + "`key`, `value`, `headers`, `timestamp`" + ` (milliseconds), ` + "`topic`, `partition` and `offset`" + `, and the fields of its value by name: the
members of a JSON object, or what a ` + "`map` or an `aggregate`" + ` upstream has named. A field that one of these names hides is
reached as ` + "`value.NAME`" + `. A field that a record lacks is ` + "`nil`" + `, and the value of a tombstone is.
`

// Reference writes docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	section := "-"
	for _, k := range Keys() {
		name := ""
		if i := strings.LastIndex(k.Path, "."); i >= 0 {
			name = k.Path[:i]
		}
		if name != section {
			section = name
			fmt.Fprintf(&b, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title(name))
		}
		fmt.Fprintf(&b, "| `%s`<br>`%s` | %s | %s | %s |\n", k.Path, k.Environment(), k.values(), code(k.Default), k.describe())
	}
	b.WriteString(propertiesReference())
	b.WriteString(pipelineHead)
	for _, s := range []struct{ section, title string }{
		{"sources", "Sources"}, {"operators", "Operators"}, {"sinks", "Sinks"},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n| key | value | meaning |\n|---|---|---|\n", s.title)
		for _, p := range sections()[s.section] {
			fmt.Fprintf(&b, "| `%s.NAME.%s`%s | %s | %s |\n", s.section, p.name, p.need(), p.values(), escape(p.meaning))
		}
	}
	return b.String()
}

func title(section string) string {
	if section == "" {
		return "Job"
	}
	return "`" + section + "`"
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func escape(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// values says what a setting may be.
func (k *Key) values() string {
	if len(k.Enum) > 0 {
		return words(k.words())
	}
	switch {
	case k.Max != "":
		return fmt.Sprintf("%s, %s to %s", k.Type, k.Min, k.Max)
	case k.Min != "":
		return fmt.Sprintf("%s, at least %s", k.Type, k.Min)
	}
	return string(k.Type)
}

func words(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }

// describe is the meaning with what the key has besides.
func (k *Key) describe() string {
	text := escape(k.Meaning)
	if k.Secret {
		text += fmt.Sprintf(" Secret: never shown; `%s` names a file to read it from.", k.FileTwin())
	}
	if k.Flag != "" {
		text += fmt.Sprintf(" Flag `--%s`.", k.Flag)
	}
	return text
}

func (p *property) need() string {
	switch {
	case p.required:
		return " (needed)"
	case p.verb:
		return " (one verb is needed)"
	}
	return ""
}

func (p *property) values() string {
	if len(p.enum) > 0 {
		return words(p.enum)
	}
	return string(p.form)
}
