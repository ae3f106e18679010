// A list of which only what is seen is in the page, however long it is. All rows have the
// same height, that of --step or --row in the style sheet.

const beyond = 4; // rows kept above and below what is seen

export class Windowed {
  // scroll is what scrolls, list the element for the rows; make(item) makes a row, and
  // update(row, item) has it show another one, or the same one as it is now.
  constructor(scroll, list, step, { make, update }) {
    Object.assign(this, { scroll, list, step, make, update, items: [], rows: new Map(), drawn: false });
    list.classList.add('windowed');
    scroll.addEventListener('scroll', () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(scroll);
    list.addEventListener('focusout', () => this.later());
  }

  show(items) {
    this.items = items;
    this.changed = true;
    this.later();
  }

  later() {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => { this.drawn = false; this.draw(); });
  }

  height() { return this.step * parseFloat(getComputedStyle(document.documentElement).fontSize); }

  draw() {
    const height = this.height(), n = this.items.length;
    this.list.style.height = `${n * height}px`;
    const top = Math.max(0, this.scroll.scrollTop - this.list.offsetTop + this.scroll.offsetTop);
    const first = Math.max(0, Math.floor(top / height) - beyond);
    const last = Math.min(n, Math.ceil((top + this.scroll.clientHeight) / height) + beyond);
    const wanted = new Map();
    for (let i = first; i < last; i++) wanted.set(this.items[i].id, i);
    const active = this.list.contains(document.activeElement) ? document.activeElement.closest('li') : null;
    if (active && !wanted.has(active.item.id)) {
      const i = this.items.findIndex((item) => item.id === active.item.id);
      if (i >= 0) wanted.set(active.item.id, i); // what has the focus stays
    }
    for (const [id, row] of this.rows) {
      if (!wanted.has(id)) { row.remove(); this.rows.delete(id); }
    }
    let before = null;
    for (const [id, i] of [...wanted].sort((a, b) => a[1] - b[1])) {
      const item = this.items[i];
      let row = this.rows.get(id);
      const isNew = !row;
      if (isNew) { row = this.make(item); this.rows.set(id, row); }
      if (isNew || row.item !== item) { row.item = item; this.update(row, item); }
      row.style.transform = `translateY(${i * height}px)`;
      row.setAttribute('aria-setsize', n);
      row.setAttribute('aria-posinset', i + 1);
      // In the page, rows are in the order in which they are read.
      const next = before ? before.nextSibling : this.list.firstChild;
      if (row !== next) {
        if (row === active) for (let x = next; x && x !== row;) { const after = x.nextSibling; this.list.insertBefore(x, row.nextSibling); x = after; }
        else this.list.insertBefore(row, next);
      }
      before = row;
    }
  }

  // reach brings the item with that index into sight and returns its row.
  reach(i) {
    const height = this.height(), top = i * height;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top + height > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = top + height - this.scroll.clientHeight;
    this.draw();
    return this.rows.get(this.items[i].id);
  }
}
