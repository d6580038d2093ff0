package main

import (
	"reflect"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
)

// usesOf returns the names of the features anywhere in a statement.
func usesOf(statement tree.Statement) used {
	f := finder{used: used{}, written: make(map[string]bool), seen: make(map[any]bool)}
	f.walk(reflect.ValueOf(&statement))
	return f.used
}

// finder visits all nodes of a statement. The parser's own walk leaves out some of them, so this one follows every
// field.
type finder struct {
	used
	written map[string]bool // the tables
	seen    map[any]bool    // the pointers
}

// ofTheTree is the package of a statement's nodes; those of other packages, such as types, are skipped.
var ofTheTree = reflect.TypeFor[tree.Select]().PkgPath()

func (f finder) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || f.seen[v.Interface()] {
			return
		}
		f.seen[v.Interface()] = true
		f.note(v.Interface())
		f.walk(v.Elem())
	case reflect.Interface:
		if !v.IsNil() {
			f.walk(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			f.walk(v.Index(i))
		}
	case reflect.Struct:
		if path := v.Type().PkgPath(); path != "" && path != ofTheTree {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.walk(v.Field(i))
			}
		}
	}
}

// note records the feature of a node.
func (f finder) note(node any) {
	switch n := node.(type) {
	case *tree.LockingItem:
		f.used[n.Strength.String()] = true
	case *tree.CTE:
		f.noteCTE(n)
	case *tree.Insert:
		f.write(n.Table)
		f.noteConflict(n.OnConflict)
	case *tree.Update:
		f.write(n.Table)
		f.noteIf(len(n.From) > 0, "UPDATE … FROM")
	case *tree.Delete:
		f.write(n.Table)
		f.noteIf(len(n.Using) > 0, "DELETE … USING")
	case *tree.FuncExpr:
		f.noteCall(n)
	case *tree.TableName:
		f.noteIf(strings.HasPrefix(n.Table(), "pg_"), "system catalog")
	case *tree.CastExpr:
		f.noteIf(strings.EqualFold(n.Type.SQLString(), "regclass"), "system catalog")
	case *tree.ColumnTableDef:
		f.noteIf(n.GeneratedIdentity.IsGeneratedAsIdentity, "identity column")
	case *tree.CreateTable:
		f.noteIf(len(n.StorageParams) > 0, "storage parameters")
	case *tree.CreateIndex:
		f.noteIndex(n)
	case *tree.SetVar:
		f.noteIf(n.Local, "SET LOCAL")
		f.noteIf(!n.Local, "session SET")
	case *tree.SetSessionCharacteristics, *tree.SetSessionAuthorizationDefault:
		f.used["session SET"] = true
	case *tree.CreateTrigger:
		f.used["trigger"] = true
	}
}

func (f finder) noteIf(is bool, name string) {
	if is {
		f.used[name] = true
	}
}

func (f finder) noteCTE(n *tree.CTE) {
	switch n.Stmt.(type) {
	case *tree.Insert, *tree.Update, *tree.Delete:
		f.used["write in WITH"] = true
	}
}

// write notes that a statement writes a table.
func (f finder) write(table tree.TableExpr) {
	if a, ok := table.(*tree.AliasedTableExpr); ok {
		table = a.Expr
	}
	name := tree.AsString(table)
	f.noteIf(f.written[name], "table written twice")
	f.written[name] = true
}

func (f finder) noteConflict(c *tree.OnConflict) {
	f.noteIf(c != nil && c.ArbiterPredicate != nil, "ON CONFLICT on a partial index")
}

// orders are functions that depend on the order of a sequence, or on its last caller.
var orders = map[string]bool{"currval": true, "lastval": true, "setval": true}

func (f finder) noteCall(n *tree.FuncExpr) {
	name := strings.ToLower(tree.AsString(&n.Func))
	switch {
	case strings.Contains(name, "advisory"):
		f.used["advisory lock"] = true
	case name == "pg_notify":
		f.used["NOTIFY"] = true
	case name == "nextval":
		f.used["nextval"] = true
	case orders[name]:
		f.used["order of a sequence"] = true
	case name == "set_config":
		local := len(n.Exprs) == 3 && tree.AsString(n.Exprs[2]) == "true"
		f.noteIf(local, "SET LOCAL")
		f.noteIf(!local, "session SET")
	}
}

func (f finder) noteIndex(n *tree.CreateIndex) {
	f.noteIf(n.Predicate != nil, "partial index")
	for _, c := range n.Columns {
		f.noteIf(c.Expr != nil, "index on an expression")
	}
}
