package emulator

import "slices"

// EmptyTrash deletes the pages in the trash with their blocks and comments, as Notion does after a
// month.
func (e *Emulator) EmptyTrash() error {
	return e.do(func(tx *tx) error {
		gone := make(map[string]bool)
		for id, p := range tx.world.Pages {
			if p.Trashed {
				gone[id] = true
			}
		}
		for id := range gone {
			tx.removePage(tx.world.Pages[id])
		}
		for source, rows := range tx.world.Rows {
			left := slices.DeleteFunc(slices.Clone(rows), func(id string) bool { return gone[id] })
			put(tx, tx.world.Rows, source, left)
		}
		for id, m := range tx.world.Comments {
			if gone[m.Parent.Page] || m.Parent.Block != "" && tx.world.Blocks[m.Parent.Block] == nil {
				drop(tx, tx.world.Comments, id)
			}
		}
		return nil
	})
}

// removePage removes a page, its blocks, and the relations that point back to it.
func (tx *tx) removePage(p *page) {
	if s := tx.world.source(p); s != nil {
		for _, prop := range s.Properties {
			if prop.Type == "relation" {
				tx.relate(p, prop, p.Values[prop.ID].Pages, nil)
			}
		}
	}
	tx.removeBlocks(p.ID)
	drop(tx, tx.world.past, p.ID)
	drop(tx, tx.world.Pages, p.ID)
}

// removeBlocks removes everything inside a page or a block.
func (tx *tx) removeBlocks(id string) {
	for _, child := range tx.world.Children[id] {
		tx.removeBlocks(child)
		drop(tx, tx.world.Blocks, child)
	}
	drop(tx, tx.world.Children, id)
}
