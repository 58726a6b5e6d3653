package config

import (
	"encoding/json"
	"strings"
)

// object is a JSON object of a schema.
type object = map[string]any

// Schema writes docs/pipeline.schema.json: the form of a pipeline file for editors, as JSON Schema. What needs more than one
// value to be seen, such as the types in an expression, weir validate alone can tell.
func Schema() ([]byte, error) {
	root := closed()
	properties := members(root)
	properties["version"] = object{"const": 1}
	for _, k := range Keys() {
		addKey(root, k)
	}
	if k, ok := properties["kafka"].(object); ok {
		members(k)["properties"] = propertiesSchema()
	}
	for section, list := range sections() {
		properties[section] = object{
			"type": "object", "additionalProperties": false,
			"patternProperties": object{itemName.String(): itemSchema(section, list)},
		}
	}
	root["required"] = []string{"version", "job", "sources", "sinks"}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Weir pipeline"
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// closed is an object that has no members but those it lists.
func closed() object {
	return object{"type": "object", "additionalProperties": false, "properties": object{}}
}

func members(of object) object {
	m, _ := of["properties"].(object) // closed made it
	return m
}

// addKey adds a setting, and the sections that lead to it.
func addKey(root object, k Key) {
	parts := strings.Split(k.Path, ".")
	at := root
	for _, section := range parts[:len(parts)-1] {
		next, ok := members(at)[section].(object)
		if !ok {
			next = closed()
			members(at)[section] = next
		}
		at = next
	}
	name := parts[len(parts)-1]
	members(at)[name] = k.schema()
	if k.Secret {
		members(at)[name+"_file"] = object{"type": "string", "description": "File to read " + k.Path + " from."}
	}
}

// reference is a value that refers to the environment, which any value may.
func reference() object { return object{"type": "string", "pattern": `\$\{`} }

func orReference(s object) object { return object{"anyOf": []any{s, reference()}} }

func (k *Key) schema() object {
	s := k.valueSchema()
	s["description"] = k.Meaning
	if k.Default != "" && k.Type != List {
		s["default"] = k.Default
	}
	return s
}

func (k *Key) valueSchema() object {
	text := object{"type": "string"}
	switch {
	case len(k.Enum) > 0:
		return orReference(object{"enum": k.Enum})
	case k.Type == List:
		return object{"anyOf": []any{text, object{"type": "array", "items": text}}}
	case k.Type == Bool:
		return orReference(object{"type": "boolean"})
	case k.Type == Int:
		return orReference(object{"type": "integer"})
	case k.Type == Duration:
		return orReference(object{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`})
	case k.Type == Bytes:
		return object{"anyOf": []any{
			object{"type": "integer"}, object{"type": "string", "pattern": `^[0-9.]+ ?[KMGTkmgt]?i?[Bb]?$`}, reference(),
		}}
	}
	return text
}

// itemSchema is the schema of one source, operator or sink.
func itemSchema(section string, list []property) object {
	s := closed()
	required := []string{}
	var verbs []any
	for _, p := range list {
		members(s)[p.name] = p.schema()
		if p.required {
			required = append(required, p.name)
		}
		if p.verb {
			verbs = append(verbs, object{"required": []string{p.name}})
		}
	}
	s["required"] = required
	if section == "operators" {
		s["oneOf"] = verbs
	}
	return s
}

func (p *property) schema() object {
	scalar := object{"type": []string{"string", "number", "boolean"}}
	named := object{"type": "object", "additionalProperties": scalar}
	var s object
	switch {
	case len(p.enum) > 0:
		s = orReference(object{"enum": p.enum})
	case p.form == someTexts:
		s = object{"anyOf": []any{object{"type": "string"}, object{"type": "array", "items": object{"type": "string"}}}}
	case p.form == namedTexts:
		s = named
	case p.form == anyTexts:
		s = object{"anyOf": []any{scalar, named}}
	default:
		s = scalar
	}
	s["description"] = p.meaning
	return s
}
