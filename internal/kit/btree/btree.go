// Package btree keeps items in order. Its Tree hides a library's behind an interface, so that Go
// compiles it only where one is made.
package btree

import (
	"github.com/tidwall/btree"
)

// Tree is a set of items in order. Each method takes logarithmic time, but Len and Copy constant
// time, and the iterations at least as much as they yield. Any number of goroutines may read a tree
// that nobody changes or copies meanwhile.
//
// It is an interface so that only the packages that make a tree compile one. Go compiles a generic
// type, with all its methods, in each package that can see it, even in an unexported field of a
// field. With the library in sight, its tree was a quarter to a half of daemon, cli, broker and demo.
type Tree[T any] interface {
	// Set adds an item, in place of an equal one.
	Set(item T)
	// Delete removes the item that equals this one, if there is one.
	Delete(item T)
	Len() int
	// Min returns the first item; false if there is none.
	Min() (T, bool)
	// At returns the item with that index; false if there is none.
	At(i int) (T, bool)
	// Ascend yields the items that do not come before first, until yield returns false. The tree must
	// not be changed meanwhile.
	Ascend(first T, yield func(T) bool)
	// All yields all items, as Ascend does.
	All(yield func(T) bool)
	// Copy returns a tree that changes apart from this one. To copy a tree counts as changing it; later
	// the copy may be read while this one is changed.
	Copy() Tree[T]
}

// New returns an empty tree. Two items are equal if neither comes before the other.
func New[T any](before func(a, b T) bool) Tree[T] {
	return tree[T]{btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})}
}

type tree[T any] struct{ *btree.BTreeG[T] }

func (t tree[T]) Set(item T)             { t.BTreeG.Set(item) }
func (t tree[T]) Delete(item T)          { t.BTreeG.Delete(item) }
func (t tree[T]) At(i int) (T, bool)     { return t.GetAt(i) }
func (t tree[T]) All(yield func(T) bool) { t.Scan(yield) }
func (t tree[T]) Copy() Tree[T]          { return tree[T]{t.BTreeG.Copy()} }
