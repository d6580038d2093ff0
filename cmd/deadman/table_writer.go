package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// tableWriter writes the rows of a table in a format.
type tableWriter[R any] interface {
	write(row R) error
	close() error
}

// newTableWriter returns the writer of a format; nil for JSON lines, as they are no table.
func newTableWriter[R any](format string, out io.Writer) tableWriter[R] {
	switch format {
	case formatCSV:
		return &csvWriter[R]{out: csv.NewWriter(out)}
	case formatParquet:
		return parquetWriter[R]{parquet.NewGenericWriter[R](out, parquet.Compression(&parquet.Zstd))}
	}
	return nil
}

type parquetWriter[R any] struct{ out *parquet.GenericWriter[R] }

func (w parquetWriter[R]) write(row R) error {
	_, err := w.out.Write([]R{row})
	return err
}

func (w parquetWriter[R]) close() error { return w.out.Close() }

// csvWriter writes a line with the names of the columns first. Times are RFC 3339 in UTC, and texts are harmless in a spreadsheet.
type csvWriter[R any] struct {
	out   *csv.Writer
	begun bool
}

func (w *csvWriter[R]) write(row R) error {
	w.begin()
	v := reflect.ValueOf(row)
	cells := make([]string, v.NumField())
	for i := range cells {
		switch value := v.Field(i).Interface().(type) {
		case string:
			cells[i] = csvText(value)
		case time.Time:
			cells[i] = value.UTC().Format(time.RFC3339Nano)
		default:
			cells[i] = fmt.Sprint(value)
		}
	}
	return w.out.Write(cells)
}

// begin writes the names of the columns once.
func (w *csvWriter[R]) begin() {
	if w.begun {
		return
	}
	w.begun = true
	row := reflect.TypeFor[R]()
	names := make([]string, row.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(row.Field(i).Tag.Get("parquet"), ",")
	}
	_ = w.out.Write(names) // the writer keeps the error for close
}

func (w *csvWriter[R]) close() error {
	w.begin()
	w.out.Flush()
	return w.out.Error()
}
