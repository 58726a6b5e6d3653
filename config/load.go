package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/weirstream/weir/internal/nearest"
)

// Origin is where the value of a setting comes from.
type Origin struct {
	// Layer is flag, environment, file or default.
	Layer string
	// Place is the flag, the variable, or file and line.
	Place string
}

// String is the layer and the place.
func (o Origin) String() string {
	if o.Place == "" {
		return o.Layer
	}
	return o.Layer + " " + o.Place
}

// Options says what Load reads.
type Options struct {
	// File is the pipeline file.
	File string
	// Flags are those of the command line, registered by AddFlags; nil where there are none.
	Flags *pflag.FlagSet
}

// AddFlags registers the flags of the settings that have one.
func AddFlags(fs *pflag.FlagSet) {
	for _, k := range Keys() {
		if k.Flag != "" {
			fs.String(k.Flag, "", fmt.Sprintf("sets %s: %s", k.Path, firstSentence(k.Meaning)))
		}
	}
}

func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, ". ")
	text, _, _ = strings.Cut(text, ";")
	return strings.TrimSuffix(text, ".")
}

// Load reads the file, and settings from environment and flags over it. A configuration that is wrong comes back with all
// that is wrong about it, as an InvalidError; the Config is then as complete as can be, for show. Any other error is one of
// reading.
func Load(o Options) (*Config, error) {
	text, err := os.ReadFile(o.File)
	if err != nil {
		return nil, fmt.Errorf("the pipeline file cannot be read: %w", err)
	}
	return Parse(o.File, text, o.Flags)
}

// Parse is Load of a file with the given content. name is how faults call it.
func Parse(name string, text []byte, flags *pflag.FlagSet) (*Config, error) {
	d := parseDocument(name, text)
	c := &Config{origins: map[string]Origin{}}
	if d.root == nil {
		return c, invalid(d.faults)
	}
	entries := d.section(d.root, "")
	d.version(entries)
	l := newLayers(d, flags)
	for _, e := range entries {
		l.fileEntry(e, "")
	}
	if l.foreign != nil {
		l.properties(l.foreign)
	}
	l.apply(c)
	c.Spec = d.pipeline(entries)
	c.Spec.Job = c.Job
	c.Graph = d.compile(c.Spec)
	c.validate(l)
	if len(d.faults) > 0 {
		return c, invalid(d.faults)
	}
	return c, nil
}

func (d *document) version(entries []entry) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == "version" })
	if i < 0 {
		d.fault(d.root, "version", "is missing, expected version: 1")
		return
	}
	if text, ok := d.text(entries[i].value, "version"); ok && text != "1" {
		d.fault(entries[i].value, "version", "%q is not known, expected 1", text)
	}
}

// delimiter separates the levels of a key within viper: not the dot, which may be part of a name.
const delimiter = "::"

func viperKey(path string) string { return strings.ReplaceAll(path, ".", delimiter) }

// layers puts flags over environment over file over defaults.
type layers struct {
	doc   *document
	viper *viper.Viper
	flags *pflag.FlagSet
	keys  []Key
	// foreign is the section of Kafka's own names, nil where there is none.
	foreign *yaml.Node
	// faulty are the keys of which nothing more need be said.
	faulty map[string]bool
}

func newLayers(d *document, flags *pflag.FlagSet) *layers {
	l := &layers{doc: d, flags: flags, keys: Keys(), faulty: map[string]bool{}, viper: viper.NewWithOptions(viper.KeyDelimiter(delimiter))}
	var known []string
	for i := range l.keys {
		k := &l.keys[i]
		l.bind(k.Path, k.Environment(), k.Flag)
		known = append(known, k.Environment())
		if k.Secret {
			l.bind(k.FileTwin(), k.Environment()+"_FILE", "")
			known = append(known, k.Environment()+"_FILE")
		}
	}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			d.faults = append(d.faults, Fault{
				Place: "environment", Key: name, Message: "unknown variable" + nearest.Hint(name, known),
			})
		}
	}
	return l
}

func (l *layers) bind(path, env, flag string) {
	// With a name for the variable, BindEnv has no way to fail; nor has BindPFlag with a flag that exists.
	_ = l.viper.BindEnv(viperKey(path), env)
	if l.flags == nil || flag == "" {
		return
	}
	if f := l.flags.Lookup(flag); f != nil {
		_ = l.viper.BindPFlag(viperKey(path), f)
	}
}

// fileEntry takes a key of the file, and what is below it, into the file's layer.
func (l *layers) fileEntry(e entry, path string) {
	at := join(path, e.name)
	if path == "" && (e.name == "version" || sections()[e.name] != nil) {
		return
	}
	if at == propertiesPath {
		l.foreign = e.value
		return
	}
	if l.isSection(at) {
		for _, below := range l.doc.section(e.value, at) {
			l.fileEntry(below, at)
		}
		return
	}
	i := slices.IndexFunc(l.keys, func(k Key) bool { return k.Path == at || k.Secret && k.FileTwin() == at })
	if i < 0 {
		l.doc.unknown(e, path, l.names(path))
		return
	}
	if l.keys[i].Type == List {
		list, ok := l.doc.texts(e.value, at)
		l.faulty[at] = !ok
		if ok {
			l.merge(at, list)
		}
		return
	}
	text, ok := l.doc.text(e.value, at)
	l.faulty[at] = !ok
	if ok {
		l.merge(at, text)
	}
}

// merge puts a value of the file beneath environment and flags.
func (l *layers) merge(path string, value any) {
	parts := strings.Split(path, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		value = map[string]any{parts[i]: value}
	}
	// A map of the program's own making always merges.
	_ = l.viper.MergeConfigMap(value.(map[string]any))
}

func (l *layers) isSection(path string) bool {
	return slices.ContainsFunc(l.keys, func(k Key) bool { return strings.HasPrefix(k.Path, path+".") })
}

// names lists the keys that a section of settings, or the top of the file, may have.
func (l *layers) names(path string) []string {
	var names []string
	if path == "" {
		names = []string{"version", "sources", "operators", "sinks"}
	}
	if path == "kafka" {
		names = append(names, "properties")
	}
	for _, k := range l.keys {
		rest, ok := strings.CutPrefix(k.Path, path+".")
		if path == "" {
			rest, ok = k.Path, true
		}
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if k.Secret && name == rest {
			names = append(names, name+"_file")
		}
	}
	return names
}

// origin tells which layer the value of a key comes from.
func (l *layers) origin(path, env, flag string) Origin {
	if l.flags != nil && flag != "" && l.flags.Changed(flag) {
		return Origin{"flag", "--" + flag}
	}
	if os.Getenv(env) != "" {
		return Origin{"environment", env}
	}
	if l.viper.InConfig(viperKey(path)) {
		return Origin{"file", fmt.Sprintf("%s:%d", l.doc.name, l.doc.nodes[path].Line)}
	}
	return Origin{Layer: "default"}
}

// apply fills in c from the layers.
func (l *layers) apply(c *Config) {
	for i := range l.keys {
		k := &l.keys[i]
		origin := l.origin(k.Path, k.Environment(), k.Flag)
		c.origins[k.Path] = origin
		if err := k.assign(c, l.value(k, origin)); err != nil {
			l.fault(k.Path, origin, err.Error())
			l.faulty[k.Path] = true
			_ = k.assign(c, split(k.Default)) // so that what follows sees a value that makes sense
		}
		if k.Secret {
			l.secret(k, c)
		}
	}
}

// value is the text of a setting, or the entries of a list.
func (l *layers) value(k *Key, origin Origin) []string {
	if origin.Layer == "default" {
		return split(k.Default)
	}
	if k.Type == List {
		if list := l.viper.GetStringSlice(viperKey(k.Path)); origin.Layer == "file" {
			return list
		}
		return split(l.viper.GetString(viperKey(k.Path)))
	}
	return []string{l.viper.GetString(viperKey(k.Path))}
}

func split(text string) []string { return strings.Split(text, ",") }

// assign sets the field of k from the text of a setting, or the entries of a list.
func (k *Key) assign(c *Config, value []string) error {
	field := k.field(c)
	if k.Type == List {
		return k.parseList(value, field)
	}
	text := value[0]
	if text == "" && k.Type == Text && k.Enum == nil {
		field.SetString("")
		return nil
	}
	return k.parse(text, field)
}

// secret reads a secret from the file that its twin names.
func (l *layers) secret(k *Key, c *Config) {
	twin := l.viper.GetString(viperKey(k.FileTwin()))
	if twin == "" {
		return
	}
	origin := l.origin(k.FileTwin(), k.Environment()+"_FILE", "")
	if c.origins[k.Path].Layer != "default" {
		l.fault(k.FileTwin(), origin, "is given beside "+k.Path+", expected one of them")
		return
	}
	text, err := os.ReadFile(filepath.Clean(twin))
	if err != nil {
		l.fault(k.FileTwin(), origin, "the file cannot be read: "+err.Error())
		l.faulty[k.Path] = true
		return
	}
	k.field(c).SetString(strings.TrimRight(string(text), "\r\n"))
	c.origins[k.Path] = origin
}

// fault reports a value with the place that it comes from. What is no setting has no layer and comes from the file alone.
func (l *layers) fault(path string, origin Origin, message string) {
	if origin.Layer != "environment" && origin.Layer != "flag" {
		l.doc.faults = append(l.doc.faults, l.doc.locate(located(path, message)))
		return
	}
	l.doc.faults = append(l.doc.faults, Fault{Place: origin.String(), Key: path, Message: message})
}
