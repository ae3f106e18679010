package relay

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"dibs/internal/mirror"
	"dibs/internal/task"
)

// format is that of the publications. What does not change the meaning of the rest may be
// added without another one. In 1 only tasks came in parts.
const format = 2

// publication is what is passed on of one sync, or a part of it.
type publication struct {
	Format int `json:"format"`
	// Run tells the publisher's run from others.
	Run string `json:"run"`
	// Settings are those by which the publisher reads tasks.
	Settings string `json:"settings"`
	// Schema and Broken are as in Config.Schema.
	Schema string `json:"schema,omitempty"`
	Broken bool   `json:"broken,omitempty"`
	// First is set for the first sync of a term: it has all that was edited since Since, and
	// not only what is different from what was published before.
	First bool      `json:"first,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// More says that the rest of the sync comes next, whose lists continue these, and Rest that
	// this continues what came before. Should the rest never come, then whoever has not read the
	// board since At asks when the next term begins.
	More bool `json:"more,omitempty"`
	Rest bool `json:"rest,omitempty"`
	// Failed says that the sync failed, and why; nothing else counts then.
	Failed string `json:"failed,omitempty"`

	At      time.Time   `json:"at"`
	Full    bool        `json:"full,omitempty"`
	Tasks   []task.Body `json:"tasks,omitempty"`
	Claimed []task.ID   `json:"claimed,omitempty"`
	Removed []task.ID   `json:"removed,omitempty"`
	Gone    []task.ID   `json:"gone,omitempty"`
	Absent  []task.ID   `json:"absent,omitempty"`
	// All are the prints of all tasks that the publisher's mirror has, if Full is set.
	All []byte `json:"all,omitempty"`
}

// halves are p in two parts; false if it is too small for that.
func (p publication) halves() (first, rest publication, ok bool) {
	first, rest = p, p
	first.More, rest.Rest = true, true
	first.Tasks, rest.Tasks = cut(p.Tasks, 1)
	first.Claimed, rest.Claimed = cut(p.Claimed, 1)
	first.Removed, rest.Removed = cut(p.Removed, 1)
	first.Gone, rest.Gone = cut(p.Gone, 1)
	first.Absent, rest.Absent = cut(p.Absent, 1)
	first.All, rest.All = cut(p.All, printSize)
	return first, rest, len(first.Tasks)+len(first.Claimed)+len(first.Removed)+len(first.Gone)+len(first.Absent)+len(first.All) > 0
}

// cut cuts a list of items of that many elements in two, the second of which has at least one.
func cut[E any](list []E, size int) (first, rest []E) {
	n := len(list) / size / 2 * size
	return list[:n], list[n:]
}

// after is p with what came before it.
func (p publication) after(before publication) publication {
	p.Tasks = slices.Concat(before.Tasks, p.Tasks)
	p.Claimed = slices.Concat(before.Claimed, p.Claimed)
	p.Removed = slices.Concat(before.Removed, p.Removed)
	p.Gone = slices.Concat(before.Gone, p.Gone)
	p.Absent = slices.Concat(before.Absent, p.Absent)
	p.All = slices.Concat(before.All, p.All)
	return p
}

// printSize is how long the print of a task's id is, which hardly any other id has.
const printSize = 8

func printOf(id task.ID) [printSize]byte {
	sum := sha256.Sum256([]byte(id))
	return [printSize]byte(sum[:])
}

func prints(tasks iter.Seq[task.Task]) (all []byte) {
	for t := range tasks {
		p := printOf(t.ID)
		all = append(all, p[:]...)
	}
	return all
}

// has tells which tasks there are prints of.
func has(prints []byte) func(task.ID) bool {
	set := make(map[[printSize]byte]bool, len(prints)/printSize)
	for p := range slices.Chunk(prints, printSize) {
		if len(p) == printSize {
			set[[printSize]byte(p)] = true
		}
	}
	return func(id task.ID) bool { return set[printOf(id)] }
}

// batch is what the mirror takes over of p.
func (p publication) batch() mirror.Batch {
	b := mirror.Batch{At: p.At, Full: p.Full, Claimed: p.Claimed, Removed: p.Removed, Gone: p.Gone, Absent: p.Absent}
	for _, t := range p.Tasks {
		b.Tasks = append(b.Tasks, t.Whole())
	}
	if p.Full {
		b.Has = has(p.All)
	}
	return b
}

// small is up to which size it does not help to compress.
const small = 512

func encode(p publication) ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil || len(data) <= small {
		return data, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// maxDecoded bounds what a publication may decompress to.
const maxDecoded = 256 << 20

func decode(data []byte) (p publication, err error) {
	if !bytes.HasPrefix(data, []byte("{")) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return p, fmt.Errorf("what was passed on cannot be read: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(r, maxDecoded)); err != nil {
			return p, fmt.Errorf("what was passed on cannot be read: %w", err)
		}
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("what was passed on cannot be read: %w", err)
	}
	return p, nil
}
