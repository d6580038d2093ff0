package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxSettingsFile limits a settings file, in bytes.
const maxSettingsFile = 64 << 10

// fileLayer reads a settings file: YAML with a name and a value per line.
func fileLayer(path string) (layer, error) {
	data, err := readSmall(path, maxSettingsFile)
	if err != nil {
		return layer{}, usageError{err}
	}
	values, err := parseSettings(data)
	if err != nil {
		return layer{}, usageError{fmt.Errorf("%s: %w", path, err)}
	}
	return layer{values, func(setting) string { return path }}, nil
}

func readSmall(path string, limit int64) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return readAtMost(f, path, limit)
}

func parseSettings(data []byte) (map[string]any, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, err
	}
	values := make(map[string]any)
	var wrong []error
	for _, doc := range file.Docs {
		pairs, err := pairsOf(doc.Body)
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			if err := addPair(values, pair); err != nil {
				wrong = append(wrong, fmt.Errorf("line %d: %w", pair.Key.GetToken().Position.Line, err))
			}
		}
	}
	return values, errors.Join(wrong...)
}

func pairsOf(body ast.Node) ([]*ast.MappingValueNode, error) {
	switch node := body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil, nil
	case *ast.MappingNode:
		return node.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, nil
	}
	return nil, errors.New("the file is not a mapping of settings; write lines such as lease: 15s")
}

func addPair(values map[string]any, pair *ast.MappingValueNode) error {
	name := pair.Key.GetToken().Value
	known := make([]string, len(settings))
	for i, s := range settings {
		known[i] = s.name
	}
	if _, twice := values[name]; twice {
		return fmt.Errorf("duplicate setting %s", name)
	}
	found := false
	for _, k := range known {
		found = found || k == name
	}
	if !found {
		return fmt.Errorf("unknown setting %s; %s", name, suggest(name, known))
	}
	value, err := scalar(pair.Value)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	values[name] = value
	return nil
}

// scalar returns a value as written, so that 0123 stays 0123.
func scalar(node ast.Node) (string, error) {
	switch v := node.(type) {
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("has no value; set one, or remove the line")
	}
	return "", errors.New("must be a single value; quote it if it has YAML syntax")
}
