// The board: columns of cards that move as things happen.

import * as live from './live.js';
import { Windowed } from './windowed.js';
import { makeCard, showCard, shape, tick, makeEvent, showEvent, matching } from './card.js';

const cards = new Map();
const columns = new Map();
const always = new Set(['OPEN', 'IN_PROGRESS', 'BLOCKED', 'COMPLETED']);
const words = document.getElementById('words');
const found = document.getElementById('found');
const rail = document.getElementById('rail');
const quiet = document.getElementById('quiet');
const dirty = new Set();
let settled = false; // what was there when the page came is not fresh

// How wide a title is on one line, in rem. The style sheet sets titles in this size.
const pen = document.createElement('canvas').getContext('2d');
pen.font = `600 15px ${getComputedStyle(document.body).fontFamily}`;
function wide(c) { return (c.wide ??= pen.measureText(c.title).width / 16); }

class Column {
  constructor(section) {
    this.section = section;
    this.status = section.dataset.status;
    this.items = [];
    const list = section.querySelector('.cards');
    list.replaceChildren();
    section.querySelector('.more')?.remove();
    const style = getComputedStyle(section);
    this.sizes = Object.fromEntries(['edge', 'title', 'line', 'bar', 'between'].map((part) => [part, parseFloat(style.getPropertyValue('--high-' + part))]));
    this.view = new Windowed(section.querySelector('.scroll'), list, { height: (c, room) => this.height(c, room), gap: this.sizes.between, make: makeCard, update: showCard });
  }

  // height is how high a card is: that of the lines that it has.
  height(c, room) {
    const { edge, title, line, bar, between } = this.sizes;
    const lines = shape(c);
    const inside = room - 1.52; // its edges take 1.5
    return edge + title * (lines.brief || wide(c) <= inside ? 1 : 2) + line * (1 + lines.who + lines.more) + bar * lines.bar + between;
  }

  gather() {
    const select = matching(words.value, (c) => [c.title, c.key, c.agent, c.priority, c.word, c.why, c.progress, c.note]);
    this.items = [];
    for (const c of cards.values()) {
      if (c.status === this.status && select(c)) this.items.push(c);
    }
    this.items.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0));
    this.section.querySelector('.count').textContent = this.items.length;
    this.section.querySelector('.empty').hidden = this.items.length > 0;
    this.section.hidden = this.items.length === 0 && !always.has(this.status);
    this.view.show(this.items);
  }
}

let waiting = false;
function gather() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    for (const status of dirty) columns.get(status)?.gather();
    dirty.clear();
    if (words.value) found.textContent = `${[...columns.values()].reduce((n, c) => n + c.items.length, 0)} of ${cards.size} tasks`;
    else found.textContent = '';
  });
}

function apply({ set = [], gone = [] }) {
  for (const c of set) {
    const old = cards.get(c.id);
    if (old) dirty.add(old.status);
    c.fresh = settled && (!old || old.status !== c.status) ? Date.now() : 0;
    cards.set(c.id, c);
    dirty.add(c.status);
  }
  for (const id of gone) {
    const old = cards.get(id);
    if (!old) continue;
    dirty.add(old.status);
    cards.delete(id);
  }
  gather();
}

// Arrows go from card to card; a slash leads to the search.
function keys(e) {
  if (e.key === '/' && !e.target.closest('input, select, textarea')) { e.preventDefault(); words.focus(); return; }
  const li = e.target.closest?.('.columns li.card');
  const section = e.target.closest?.('.column');
  if (!section || e.altKey || e.ctrlKey || e.metaKey) return;
  const column = columns.get(section.dataset.status);
  const i = li ? column.items.findIndex((c) => c.id === li.item.id) : -1;
  let to = null;
  if (e.key === 'ArrowDown') to = [column, i + 1];
  else if (e.key === 'ArrowUp' && li) to = [column, i - 1];
  else if (e.key === 'Home' && li) to = [column, 0];
  else if (e.key === 'End' && li) to = [column, column.items.length - 1];
  else if (e.key === 'ArrowRight' || e.key === 'ArrowLeft') {
    const shown = [...columns.values()].filter((c) => !c.section.hidden && c.items.length);
    const next = shown[shown.indexOf(column) + (e.key === 'ArrowRight' ? 1 : -1)];
    if (next) to = [next, Math.min(Math.max(i, 0), next.items.length - 1)];
  }
  if (!to || !to[0].items[to[1]]) return;
  e.preventDefault();
  to[0].view.reach(to[1])?.querySelector('.title').focus({ preventScroll: true });
  to[0].section.scrollIntoView({ inline: 'nearest', block: 'nearest' });
}

function tell(e) {
  const li = makeEvent();
  showEvent(li, e);
  rail.prepend(li);
  quiet.hidden = true;
  while (rail.children.length > 60) rail.lastChild.remove();
}

export function take(snapshot) {
  cards.clear();
  for (const status of columns.keys()) dirty.add(status);
  settled = false;
  apply({ set: snapshot.cards });
  settled = true;
  rail.replaceChildren();
  quiet.hidden = false;
  for (const e of snapshot.events.slice(-60)) tell(e);
}

export function begin() {
  for (const section of document.querySelectorAll('.column')) columns.set(section.dataset.status, new Column(section));
  live.on('tasks', apply);
  live.on('event', tell);
  words.form.addEventListener('submit', (e) => e.preventDefault());
  words.addEventListener('input', () => { for (const status of columns.keys()) dirty.add(status); gather(); });
  document.addEventListener('keydown', keys);
  setInterval(() => { for (const c of columns.values()) for (const row of c.view.rows.values()) tick(row); }, 1000);
}
