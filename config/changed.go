package config

import "reflect"

// Changed returns the keys whose values differ.
func Changed(before, after Config) []string {
	a, b := fieldsOf(&before), fieldsOf(&after)
	var keys []string
	for i := range a {
		if !reflect.DeepEqual(reflect.ValueOf(a[i].target).Elem().Interface(), reflect.ValueOf(b[i].target).Elem().Interface()) {
			keys = append(keys, a[i].key)
		}
	}
	return keys
}
