package web

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// The years of times in requests. Outside of them databases, RFC 3339 and time.Duration differ.
const (
	firstYear = 1970
	lastYear  = 2999
)

// outOfBounds returns the reason to refuse a time, or "". The zero time stands for no time.
func outOfBounds(at time.Time) string {
	year := at.UTC().Year()
	if at.IsZero() || firstYear <= year && year <= lastYear {
		return ""
	}
	return fmt.Sprintf("the year %d is out of bounds; give an instant of the years %d to %d", year, firstYear, lastYear)
}

// checkInstants refuses an input that contains a time out of bounds, at any depth.
func checkInstants(in any) error {
	var wrong []ProblemDetail
	eachInstant(reflect.ValueOf(in), "", func(at time.Time, location string) {
		if message := outOfBounds(at); message != "" {
			wrong = append(wrong, ProblemDetail{Location: location, Message: message})
		}
	})
	switch {
	case wrong == nil:
		return nil
	case strings.HasPrefix(wrong[0].Location, "body"):
		return problemOfDetails(Invalid, http.StatusUnprocessableEntity, wrong)
	}
	return problemOfDetails(BadRequest, http.StatusBadRequest, wrong)
}

// eachInstant calls yield with each time in a value, and its location as problems name it.
func eachInstant(v reflect.Value, location string, yield func(at time.Time, location string)) {
	if !holdsInstant(v.Type(), nil) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachInstant(v.Elem(), location, yield)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachInstant(v.Index(i), fmt.Sprintf("%s[%d]", location, i), yield)
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			eachInstant(value, fmt.Sprintf("%s.%v", location, key), yield)
		}
	case reflect.Struct:
		if at, is := v.Interface().(time.Time); is {
			yield(at, location)
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				eachInstant(v.Field(i), locationOf(f, location), yield)
			}
		}
	}
}

// holdsInstant reports whether values of a type may contain times. It does not descend into the types in within again.
func holdsInstant(t reflect.Type, within []reflect.Type) bool {
	for _, outer := range within {
		if t == outer {
			return false
		}
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsInstant(t.Elem(), within)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return true
		}
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && holdsInstant(f.Type, within) {
				return true
			}
		}
	}
	return false
}

// locationOf returns the location of an input's field, as problems name it.
func locationOf(f reflect.StructField, under string) string {
	for _, in := range []string{"query", "path", "header"} {
		if name, _, _ := strings.Cut(f.Tag.Get(in), ","); name != "" {
			return in + "." + name
		}
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case f.Anonymous:
		return under
	case under == "" && f.Name == "Body":
		return "body"
	case name == "":
		name = f.Name
	}
	return under + "." + name
}
