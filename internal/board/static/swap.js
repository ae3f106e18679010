// Parts of pages that the server writes anew, and the dialog. The browser reads a page the
// server wrote as a document, in which nothing runs, and a part of it is put in the place
// of the one that is there.

import * as clock from './clock.js';

const dialog = document.getElementById('dialog');
const body = dialog.querySelector('.dialog-body');

function read(url, form) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.responseType = 'document';
    request.timeout = 30000;
    request.open(form ? 'POST' : 'GET', url);
    request.onload = () => (request.response ? resolve(request.response) : reject(new Error('no page')));
    request.onerror = request.ontimeout = () => reject(new Error('no answer'));
    request.send(form ? new URLSearchParams(form) : null);
  });
}

function adopt(part) {
  const own = document.importNode(part, true);
  clock.localize(own);
  return own;
}

// refresh has the part of the page that is to stay live written anew.
export async function refresh(selector, url) {
  const here = document.querySelector(selector);
  if (!here || document.hidden) return;
  try {
    const page = await read(url || location.href);
    const part = page.querySelector('main #live');
    if (!part) return;
    const open = [...here.querySelectorAll('details')].map((d) => d.open);
    const own = adopt(part);
    own.querySelectorAll('details').forEach((d, i) => { d.open = open[i]; });
    // What has the focus keeps it, by its id or its place; what somebody has begun to write stays.
    const active = document.activeElement, written = here.querySelectorAll('input[id]');
    const at = [...here.querySelectorAll('a, summary, button')].indexOf(active);
    for (const input of written) {
      const next = own.querySelector('#' + CSS.escape(input.id));
      if (input === active && !next && input.value) return; // its task went on meanwhile: it is not taken from under the fingers
      if (next && input.value !== input.defaultValue) next.value = input.value;
    }
    const marked = active.id && here.contains(active) && active.tagName === 'INPUT' ? [active.selectionStart, active.selectionEnd] : null;
    here.replaceWith(own);
    if (marked) {
      const next = own.querySelector('#' + CSS.escape(active.id));
      next?.focus({ preventScroll: true });
      next?.setSelectionRange(...marked);
    } else if (at >= 0) own.querySelectorAll('a, summary, button')[at]?.focus({ preventScroll: true });
  } catch { /* the line above the page says that nothing answers */ }
}

let shown = ''; // the address of what the dialog shows
let wanted = null; // what it is to show as soon as that is there
let opener = ''; // where the link leads that opened it

function leave() {
  wanted = null;
  dialog.close();
}

async function show(url, form) {
  const mine = wanted = { url };
  try {
    const page = await read(url, form);
    const part = page.querySelector('main > *, main');
    if (wanted !== mine) return;
    shown = url;
    const close = document.createElement('button');
    close.className = 'button close';
    close.textContent = 'Close';
    close.addEventListener('click', leave);
    const own = adopt(part);
    own.removeAttribute('id');
    body.replaceChildren(close, own);
    dialog.setAttribute('aria-label', own.querySelector('h1')?.textContent || 'Task');
  } catch {
    if (wanted !== mine) return;
    const said = document.createElement('p');
    said.className = 'problem';
    said.setAttribute('role', 'alert');
    said.textContent = 'The board does not answer. Try again in a moment.';
    body.prepend(said);
  }
  wanted = null;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

// again has an open dialog that shows a task show it as it is now.
export function again(id) {
  if (dialog.open && !wanted && shown === '/tasks/' + id && !body.querySelector('form')) show(shown);
}

export function begin() {
  document.addEventListener('click', (e) => {
    const link = e.target.closest('a');
    if (!link || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
    if (link.dataset.close !== undefined && dialog.open) { e.preventDefault(); leave(); return; }
    if (link.dataset.dialog === undefined && !dialog.contains(link)) return;
    if (link.target === '_blank' || link.origin !== location.origin) return;
    e.preventDefault();
    if (!dialog.open) opener = link.getAttribute('href');
    show(link.pathname + link.search);
  });
  document.addEventListener('submit', (e) => {
    if (!dialog.contains(e.target) || e.target.method !== 'post') return;
    e.preventDefault();
    for (const b of e.target.querySelectorAll('button')) b.disabled = true;
    show(new URL(e.target.action).pathname, new FormData(e.target));
  });
  dialog.addEventListener('click', (e) => { if (e.target === dialog) leave(); });
  dialog.addEventListener('cancel', () => { wanted = null; });
  dialog.addEventListener('close', () => {
    if (dialog.open || wanted) return;
    shown = '';
    body.replaceChildren();
    // The link that opened it may have been drawn anew, and has not the focus again then.
    if (document.activeElement === document.body) document.querySelector(`main a[href="${CSS.escape(opener)}"]`)?.focus({ preventScroll: true });
  });
}
