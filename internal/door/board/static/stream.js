// The page of events: the newest on top, filtered.

import * as live from './live.js';
import { Windowed } from './windowed.js';
import { makeEvent, showEvent, matching } from './card.js';

const most = 5000;
let events = []; // the newest first
const scroll = document.getElementById('stream');
const form = document.getElementById('filter');
let view;

function selected() {
  const { kind, agent, q } = form.elements;
  const select = matching(q.value, (e) => [e.title, e.agent, e.kind, e.text]);
  return events.filter((e) => (!kind.value || kind.value === e.kind) && (!agent.value || agent.value === e.agent) && select(e));
}

function show() {
  const items = selected();
  const empty = scroll.querySelector('.empty');
  empty.hidden = items.length > 0;
  empty.textContent = events.length ? 'Nothing of that kind has happened lately.' : 'Nothing has happened yet.';
  // Who reads further down stays where he is while new ones come on top.
  const was = view.items.length && scroll.scrollTop > 0 ? items.findIndex((e) => e.id === view.items[0].id) : 0;
  view.show(items);
  if (was > 0) scroll.scrollTop += view.tops[was] * view.unit();
}

function choose(select, value, text) {
  if (!value || [...select.options].some((o) => o.value === value)) return;
  select.add(new Option(text, value));
}

function take(e) {
  events.unshift(e);
  if (events.length > most) events.length = most;
  choose(form.elements.kind, e.kind, e.kind.replaceAll('_', ' '));
  choose(form.elements.agent, e.agent, e.agent);
}

export function begin() {
  const list = scroll.querySelector('.events');
  list.replaceChildren();
  const row = () => parseFloat(getComputedStyle(scroll).getPropertyValue('--row'));
  let height = row();
  view = new Windowed(scroll, list, { height: () => height, make: makeEvent, update: showEvent });
  new ResizeObserver(() => { height = row(); view.measure(); view.later(); }).observe(scroll);
  live.on('event', (e) => { take(e); show(); });
  form.addEventListener('submit', (e) => e.preventDefault());
  form.addEventListener('input', () => {
    show();
    history.replaceState(null, '', '/events?' + new URLSearchParams(new FormData(form)));
  });
}

export function restart(snapshot) {
  events = [];
  for (const e of snapshot.events) take(e);
  show();
}
