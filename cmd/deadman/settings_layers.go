package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"deadman/internal/configfile"
)

// envPrefix is the prefix of deadman's environment variables.
const envPrefix = "DEADMAN_"

// clientVariables are the variables for clients and for commands of `heartbeat run`, unrelated to a node's settings.
var clientVariables = []string{"DEADMAN_TOKEN", "DEADMAN_URL", runIDVariable}

const (
	configFlag     = "config"
	configVariable = "DEADMAN_CONFIG"
)

// layer is a source of values: the defaults, a file, the environment or flags.
type layer struct {
	values map[string]any
	from   func(setting) string // name of the origin for messages
}

// Read implements koanf.Provider.
func (l layer) Read() (map[string]any, error) { return l.values, nil }

// ReadBytes implements koanf.Provider; it always fails, because a layer has no bytes.
func (l layer) ReadBytes() ([]byte, error) { return nil, errors.New("a layer is not bytes") }

// originDefault is the origin of values that are not set.
const originDefault = "default"

// resolvedSetting is a setting with its value and origin.
type resolvedSetting struct {
	setting
	value  string
	origin string
}

// mergeSettings merges the layers. From weakest to strongest: defaults, file, environment, flags.
func mergeSettings(flags *pflag.FlagSet, env []string) ([]resolvedSetting, error) {
	layers := []layer{presetLayer()}
	fromEnv, err := envLayer(env)
	if err != nil {
		return nil, err
	}
	if path := configPath(flags, env); path != "" {
		fromFile, err := fileLayer(path)
		if err != nil {
			return nil, err
		}
		layers = append(layers, fromFile)
	}
	layers = append(layers, fromEnv, flagLayer(flags))

	merged := koanf.New(".")
	origins := make(map[string]string, len(settings))
	for _, l := range layers {
		if err := merged.Load(l, nil); err != nil {
			return nil, err
		}
		for _, s := range settings {
			if _, there := l.values[s.name]; there {
				origins[s.name] = l.from(s)
			}
		}
	}
	all := make([]resolvedSetting, len(settings))
	for i, s := range settings {
		all[i] = resolvedSetting{setting: s, value: merged.String(s.name), origin: origins[s.name]}
	}
	return all, nil
}

// resolve merges the layers and parses all values. The error lists every invalid value with its setting and origin.
func resolve(flags *pflag.FlagSet, env []string) (serveConfig, error) {
	all, err := mergeSettings(flags, env)
	if err != nil {
		return serveConfig{}, err
	}
	var r serveConfig
	var wrong []error
	for _, c := range all {
		if c.origin == originDefault && strings.HasSuffix(c.name, "_addr") {
			continue // the node has the same default, and may move from an address that was not set
		}
		if err := c.set(&r, c.value); err != nil {
			wrong = append(wrong, fmt.Errorf("%s is %q (%s): %w", c.name, shownValue(c), c.origin, err))
		}
	}
	if len(wrong) > 0 {
		return serveConfig{}, usageError{errors.Join(wrong...)}
	}
	return r, nil
}

func presetLayer() layer {
	values := make(map[string]any, len(settings))
	for _, s := range settings {
		values[s.name] = s.preset
	}
	return layer{values, func(setting) string { return originDefault }}
}

// envLayer reads the environment. It rejects unknown variables with the prefix, because a typo would go unnoticed. An
// empty variable sets nothing.
func envLayer(env []string) (layer, error) {
	known := slices.Concat(clientVariables, []string{configVariable})
	byVariable := make(map[string]setting, len(settings))
	for _, s := range settings {
		known = append(known, s.variable())
		byVariable[s.variable()] = s
	}
	l := layer{make(map[string]any), func(s setting) string { return s.variable() }}
	var wrong []error
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, "DEADMAN_TEST_") {
			continue
		}
		s, ok := byVariable[name]
		switch {
		case !ok && !slices.Contains(known, name):
			wrong = append(wrong, fmt.Errorf("unknown environment variable %s; %s", name, suggest(name, known)))
		case ok && value != "":
			l.values[s.name] = value
		}
	}
	if len(wrong) > 0 {
		return layer{}, usageError{errors.Join(wrong...)}
	}
	return l, nil
}

func flagLayer(flags *pflag.FlagSet) layer {
	l := layer{make(map[string]any), func(s setting) string { return "--" + s.flag() }}
	for _, s := range settings {
		if f := flags.Lookup(s.flag()); f != nil && f.Changed {
			l.values[s.name] = f.Value.String()
		}
	}
	return l
}

func configPath(flags *pflag.FlagSet, env []string) string {
	if f := flags.Lookup(configFlag); f != nil && f.Changed {
		return f.Value.String()
	}
	for _, pair := range env {
		if path, ok := strings.CutPrefix(pair, configVariable+"="); ok {
			return path
		}
	}
	return ""
}

// addSettings adds a flag for every setting.
func addSettings(flags *pflag.FlagSet) {
	textFlag(flags, configFlag, "file", "", "YAML file with settings")
	for _, s := range settings {
		if s.preset == "false" {
			flags.Bool(s.flag(), false, s.usage)
		} else {
			textFlag(flags, s.flag(), s.kind, s.preset, s.usage)
		}
	}
	flags.SortFlags = false
}

func suggest(name string, known []string) string {
	if near := configfile.Suggest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	slices.Sort(known)
	return "available: " + strings.Join(known, ", ")
}
