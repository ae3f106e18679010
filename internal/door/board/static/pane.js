// The task beside the list, with an address of its own: the list's, and task=ID. On a narrow
// screen, and where there is no list, a task is a page of its own.

import { read, adopt, replace, fill } from './swap.js';

const pane = document.getElementById('pane');
const wide = matchMedia('(min-width: 62rem)');
const lists = document.body.dataset.view !== 'task';
const title = document.title;
let shown = null; // the address of what it shows
let wanted = null; // what it is to show as soon as that is there
let opener = ''; // where the link leads that opened it

const named = () => new URLSearchParams(location.search).get('task');

// address writes into the address which task is shown; empty is none.
function address(id) {
  if ((named() || '') === id) return;
  const url = new URL(location.href);
  if (id) url.searchParams.set('task', id);
  else url.searchParams.delete('task');
  history.pushState(null, '', url);
}

function leave() {
  wanted = shown = null;
  if (pane.hidden) return;
  pane.hidden = true;
  pane.replaceChildren();
  document.body.classList.remove('beside');
  document.title = title;
  address('');
  // The link that opened it may have been drawn anew, and has not the focus again then.
  document.querySelector(`main a[href="${CSS.escape(opener)}"]`)?.focus({ preventScroll: true });
}

// show has the pane show a page of the board.
export async function show(url, form) {
  if (!lists || !wide.matches) { location.assign(url); return; }
  const mine = wanted = {};
  if (pane.hidden) opener = url;
  const close = document.createElement('button');
  close.className = 'button close';
  close.textContent = 'Close';
  close.addEventListener('click', leave);
  let own;
  try {
    const answer = await read(url, form);
    if (wanted !== mine) return;
    shown = answer.url;
    own = adopt(answer.page.querySelector('main > *'));
    own.removeAttribute('id');
    document.title = answer.page.title;
  } catch {
    if (wanted !== mine) return;
    own = document.createElement('p');
    own.className = 'problem';
    own.setAttribute('role', 'alert');
    own.textContent = 'The board does not answer. Try again in a moment.';
  }
  wanted = null;
  pane.replaceChildren(close, own);
  pane.hidden = false;
  pane.scrollTop = 0;
  document.body.classList.add('beside');
  pane.setAttribute('aria-label', own.querySelector('h1')?.textContent || 'Task');
  (own.querySelector('textarea, input:not([type=hidden])') || own.querySelector('h1'))?.focus({ preventScroll: true });
  address(shown?.pathname.match(/^\/tasks\/([^/]+)/)?.[1] || '');
  fill(own);
}

// again has a pane that shows a task show it as it is now. It reads the whole address, which says
// what was done. A form is left alone: it says what has changed once it is sent.
export async function again(id) {
  const here = pane.querySelector('[data-task]'), path = shown?.pathname;
  if (!here || wanted || document.hidden || id && here.dataset.task !== id) return;
  try {
    const part = (await read(shown)).page.querySelector('main [data-task]');
    if (!part || !here.isConnected || shown?.pathname !== path) return;
    part.removeAttribute('id');
    fill(replace(here, part));
  } catch { /* the line above the page says that nothing answers */ }
}

// follow has the pane show what the address names.
function follow() {
  const id = named();
  if (!id) leave();
  else if (shown?.pathname !== '/tasks/' + id) show('/tasks/' + encodeURIComponent(id));
}

// A card that is dropped on a column asks what getting there takes.
function drag() {
  const over = (e) => e.target.closest?.('.column:not([data-status=PEOPLE])');
  let card = null;
  document.addEventListener('dragstart', (e) => {
    const li = e.target.closest?.('.column .card');
    card = li && { href: li.querySelector('.title').getAttribute('href'), from: over(e) };
  });
  const mark = (at) => { for (const c of document.querySelectorAll('.column')) c.classList.toggle('over', c === at); };
  document.addEventListener('dragover', (e) => {
    const to = card && over(e);
    mark(to !== card?.from ? to : null);
    if (to) e.preventDefault();
  });
  document.addEventListener('dragend', () => { card = null; mark(null); });
  document.addEventListener('drop', (e) => {
    const to = card && over(e);
    if (!to) return;
    e.preventDefault();
    if (to !== card.from) show(`${card.href}/move?to=${to.dataset.status}`);
  });
}

export function begin() {
  document.addEventListener('click', (e) => {
    const link = e.target.closest('a');
    if (!link || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
    const to = new URL(link.getAttribute('href'), location.href); // one in a drawing has no address of its own
    if (!lists || !wide.matches || link.getAttribute('target') || to.origin !== location.origin) return;
    const within = pane.contains(link);
    if (within && link.dataset.close !== undefined) { e.preventDefault(); leave(); return; }
    if (!within && !/^\/(tasks\/.+|new|sweep)$/.test(to.pathname)) return;
    e.preventDefault();
    show(to.pathname + to.search);
  });
  document.addEventListener('submit', (e) => {
    if (!pane.contains(e.target) || e.target.method !== 'post') return;
    e.preventDefault();
    const form = new FormData(e.target);
    for (const b of e.target.querySelectorAll('button')) b.disabled = true;
    show(new URL(e.target.action).pathname, form);
  });
  document.addEventListener('keydown', (e) => {
    if (e.key === 'Escape' && !pane.hidden && !e.defaultPrevented) leave();
  });
  if (!lists) return;
  window.addEventListener('popstate', follow);
  if (named()) follow();
  setInterval(again, 5000, '');
  if (document.body.dataset.readOnly === undefined) drag();
}
