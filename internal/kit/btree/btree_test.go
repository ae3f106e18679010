package btree_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"dibs/internal/kit/btree"
)

// keys is how many keys there are: enough for a tree of several levels.
const keys = 10_000

type item struct{ key, value int }

// TestTree changes a tree and a sorted slice at random, and compares them. A copy and its original
// change apart from each other.
func TestTree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	byKey := func(a, b item) int { return cmp.Compare(a.key, b.key) }
	tree := btree.New(func(a, b item) bool { return byKey(a, b) < 0 })
	var model []item
	check := func(tree btree.Tree[item], model []item) {
		t.Helper()
		var all, from []item
		tree.All(func(i item) bool { all = append(all, i); return true })
		if !slices.Equal(all, model) || tree.Len() != len(model) {
			t.Fatalf("the tree has %v (%d), want %v", all, tree.Len(), model)
		}
		first := item{key: r.IntN(keys)}
		start, _ := slices.BinarySearchFunc(model, first, byKey)
		want := model[start:min(start+3, len(model))]
		tree.Ascend(first, func(i item) bool { from = append(from, i); return len(from) < 3 })
		if !slices.Equal(from, want) {
			t.Fatalf("three from %d on: %v, want %v", first.key, from, want)
		}
		at := r.IntN(len(model) + 1)
		if got, ok := tree.At(at); ok != (at < len(model)) || ok && got != model[at] {
			t.Fatalf("item %d is %v, %v, of %v", at, got, ok, model)
		}
		if got, ok := tree.Min(); ok != (len(model) > 0) || ok && got != model[0] {
			t.Fatalf("the first is %v, %v, of %v", got, ok, model)
		}
	}
	for range 50 {
		copied, before := tree.Copy(), slices.Clone(model)
		for range 200 {
			one := item{r.IntN(keys), r.Int()}
			i, found := slices.BinarySearchFunc(model, one, byKey)
			if r.IntN(3) > 0 {
				tree.Set(one)
				if found {
					model[i] = one
				} else {
					model = slices.Insert(model, i, one)
				}
			} else {
				tree.Delete(one)
				if found {
					model = slices.Delete(model, i, i+1)
				}
			}
		}
		check(tree, model)
		check(copied, before)
		for range keys / 20 {
			copied.Delete(item{key: r.IntN(keys)})
			copied.Set(item{r.IntN(keys), -1})
		}
		check(tree, model)
	}
}
