// The page of tasks: columns of cards that move as things happen.

import * as live from './live.js';
import { Windowed } from './windowed.js';
import { makeCard, showCard, shape, tick, makeEvent, showEvent, matching } from './card.js';

const cards = new Map();
const columns = new Map();
const always = new Set(['OPEN', 'IN_PROGRESS', 'BLOCKED', 'COMPLETED']);
const form = document.getElementById('filter');
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
    this.key = section.dataset.status;
    this.items = [];
    const list = section.querySelector('.cards');
    list.replaceChildren();
    section.querySelector('.more')?.remove();
    const style = getComputedStyle(section);
    this.sizes = Object.fromEntries(['edge', 'title', 'line', 'bar', 'decide', 'between'].map((part) => [part, parseFloat(style.getPropertyValue('--high-' + part))]));
    this.view = new Windowed(section.querySelector('.scroll'), list, { height: (c, room) => this.height(c, room), gap: this.sizes.between, make: makeCard, update: show });
    section.querySelector('.fold')?.addEventListener('click', (e) => { e.preventDefault(); this.fold(); });
  }

  fold() {
    const folded = this.section.classList.toggle('folded');
    this.section.querySelector('.fold').setAttribute('aria-expanded', String(!folded));
    keep();
  }

  // height is how high a card is: that of the lines that it has.
  height(c, room) {
    const { edge, title, line, bar, decide, between } = this.sizes;
    if (c.heading) return line + between;
    const lines = shape(c);
    const inside = room - 1.52; // its edges take 1.5
    return edge + title * (lines.brief || wide(c) <= inside ? 1 : 2) + line * (1 + lines.who + lines.chips + lines.more) + bar * lines.bar + decide * lines.decide + between;
  }

  gather(select, group) {
    const own = [];
    for (const c of cards.values()) {
      if (c.column === this.key && select(c)) own.push(c);
    }
    own.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0)); // the server's order
    this.count = own.length;
    this.items = group ? grouped(own, group) : own;
    this.section.querySelector('.count').textContent = this.count;
    this.section.querySelector('.empty').hidden = this.count > 0;
    this.section.hidden = this.count === 0 && !always.has(this.key);
    this.view.show(this.items);
  }

  // card is the index of the first card from there on, in steps of one.
  card(i, step) {
    while (this.items[i]?.heading) i += step;
    return i;
  }
}

// grouped puts a heading before the cards of each group. Groups come in the order of their first cards.
function grouped(own, group) {
  const groups = new Map();
  for (const c of own) {
    const name = group(c);
    if (!groups.has(name)) groups.set(name, [{ id: 'group ' + name, heading: name }]);
    groups.get(name).push(c);
  }
  return [...groups.values()].flat();
}

function show(li, item) {
  if (!item.heading) { showCard(li, item); return; }
  li.className = 'group';
  li.textContent = item.heading;
}

// selecting and grouping do what the form says, as the server does.
function selecting() {
  const { agent, priority, field } = form.elements;
  const found = matching(words.value, (c) => [c.title, c.key, c.agent, c.priority, c.word, c.why, c.progress, c.note, c.fields]);
  return (c) => (!agent.value || c.agent === agent.value) && (!priority.value || c.word === priority.value) &&
    (!field.value || (c.fields || '').split('\n').includes(field.value)) && found(c);
}

function grouping() {
  const by = form.elements.group.value;
  if (!by) return null;
  if (by === 'agent') return (c) => c.agent || 'nobody';
  if (by === 'priority') return (c) => c.word || 'no priority';
  return (c) => (c.fields || '').split('\n').filter((line) => line.startsWith(by + '=')).map((line) => line.slice(by.length + 1)).join(', ') || 'no ' + by;
}

// choose adds what a card has to the choices of the form.
const most = 200;
const known = {};
function choose(name, value) {
  const select = form.elements[name];
  known[name] ??= new Set([...select.options].map((o) => o.value));
  if (!value || known[name].has(value) || known[name].size > most) return;
  known[name].add(value);
  select.add(new Option(value), [...select.options].find((o, i) => i > 0 && name !== 'priority' && o.value > value) ?? null);
  select.closest('label').hidden = false;
}

function choices(c) {
  choose('agent', c.agent);
  choose('priority', c.word);
  for (const line of c.fields ? c.fields.split('\n') : []) {
    choose('field', line);
    choose('group', line.slice(0, line.indexOf('=')));
  }
}

// keep keeps in the address what the page shows.
function keep() {
  const q = new URLSearchParams(), task = new URLSearchParams(location.search).get('task');
  if (task) q.set('task', task);
  for (const name of ['q', 'agent', 'priority', 'field', 'group']) if (form.elements[name].value) q.set(name, form.elements[name].value);
  for (const c of columns.values()) if (c.section.querySelector('.fold') && !c.section.classList.contains('folded')) q.append('open', c.key);
  history.replaceState(null, '', '/tasks' + (q.size ? '?' + q : ''));
}

let waiting = false;
function gather() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const select = selecting(), group = grouping();
    for (const key of dirty) columns.get(key)?.gather(select, group);
    dirty.clear();
    const all = ['q', 'agent', 'priority', 'field'].every((name) => !form.elements[name].value);
    found.textContent = all ? '' : `${[...columns.values()].reduce((n, c) => n + c.count, 0)} of ${cards.size} tasks`;
  });
}

function apply({ set = [], gone = [] }) {
  for (const c of set) {
    const old = cards.get(c.id);
    if (old) dirty.add(old.column);
    c.fresh = settled && (!old || old.column !== c.column) ? Date.now() : 0;
    cards.set(c.id, c);
    dirty.add(c.column);
    choices(c);
  }
  for (const id of gone) {
    const old = cards.get(id);
    if (!old) continue;
    dirty.add(old.column);
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
  if (e.key === 'ArrowDown') to = [column, column.card(i + 1, 1)];
  else if (e.key === 'ArrowUp' && li) to = [column, column.card(i - 1, -1)];
  else if (e.key === 'Home' && li) to = [column, column.card(0, 1)];
  else if (e.key === 'End' && li) to = [column, column.items.length - 1];
  else if (e.key === 'ArrowRight' || e.key === 'ArrowLeft') {
    const shown = [...columns.values()].filter((c) => !c.section.hidden && !c.section.classList.contains('folded') && c.items.length);
    const next = shown[shown.indexOf(column) + (e.key === 'ArrowRight' ? 1 : -1)];
    if (next) to = [next, next.card(Math.min(Math.max(i, 0), next.items.length - 1), 1)];
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
  for (const key of columns.keys()) dirty.add(key);
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
  form.addEventListener('submit', (e) => e.preventDefault());
  form.addEventListener('input', () => { keep(); for (const key of columns.keys()) dirty.add(key); gather(); });
  document.addEventListener('keydown', keys);
  setInterval(() => { for (const c of columns.values()) for (const row of c.view.rows.values()) tick(row); }, 1000);
}
