// Package loose decodes the JSON of others, in which a part may have another type than was expected.
package loose

import "encoding/json"

// Value is a part of a JSON document. It stays zero if the part is not a T, and the rest of the
// document is decoded all the same.
type Value[T any] struct{ Is T }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value[T]) UnmarshalJSON(data []byte) error {
	var is T
	if json.Unmarshal(data, &is) == nil {
		v.Is = is
	}
	return nil
}
