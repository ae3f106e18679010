// A list of which only what is seen is in the page, however long it is. How high a row is
// can be told from its item alone, without having it drawn.

const beyond = 4; // rows kept above and below what is seen

export class Windowed {
  // scroll is what scrolls, list the element for the rows; height(item, room) is how high
  // a row is in a list that is room wide, in rem, with the gap between it and the next;
  // make(item) makes a row, and update(row, item) has it show another item, or the same
  // one as it is now.
  constructor(scroll, list, { height, gap = 0, make, update }) {
    Object.assign(this, { scroll, list, height, gap, make, update, items: [], tops: new Float64Array(1), rows: new Map(), drawn: false, width: 0 });
    list.classList.add('windowed');
    scroll.addEventListener('scroll', () => this.later(), { passive: true });
    new ResizeObserver(() => this.resize()).observe(scroll);
    list.addEventListener('focusout', () => this.later());
  }

  show(items) {
    this.items = items;
    this.measure();
    this.later();
  }

  // measure works out where rows begin, in rem.
  measure() {
    this.tops = new Float64Array(this.items.length + 1);
    const room = this.width / this.unit();
    this.items.forEach((item, i) => { this.tops[i + 1] = this.tops[i] + this.height(item, room); });
  }

  resize() {
    if (this.list.clientWidth !== this.width) { this.width = this.list.clientWidth; this.measure(); }
    this.later();
  }

  later() {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => { this.drawn = false; this.draw(); });
  }

  unit() { return parseFloat(getComputedStyle(document.documentElement).fontSize); }

  // at is the index of the row that is that far down, in rem.
  at(down) {
    let low = 0, high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= down) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  draw() {
    const unit = this.unit(), n = this.items.length;
    this.list.style.height = `${this.tops[n]}rem`;
    const top = Math.max(0, this.scroll.scrollTop - this.list.offsetTop + this.scroll.offsetTop) / unit;
    const first = Math.max(0, this.at(top) - beyond);
    const last = Math.min(n, this.at(top + this.scroll.clientHeight / unit) + 1 + beyond);
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
      row.style.transform = `translateY(${this.tops[i]}rem)`;
      row.style.height = `${this.tops[i + 1] - this.tops[i] - this.gap}rem`;
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
    const unit = this.unit(), top = this.tops[i] * unit, end = this.tops[i + 1] * unit;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (end > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = end - this.scroll.clientHeight;
    this.draw();
    return this.rows.get(this.items[i].id);
  }
}
