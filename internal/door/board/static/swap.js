// Parts of pages that the server writes anew. The browser reads a page the server wrote as a
// document, in which nothing runs, and a part of it is put in the place of the one that is
// there.

import * as clock from './clock.js';

// read answers with a page, and the address that it has in the end.
export function read(url, form) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.responseType = 'document';
    request.timeout = 60000;
    request.open(form ? 'POST' : 'GET', url);
    request.onload = () => (request.response ? resolve({ page: request.response, url: new URL(request.responseURL) }) : reject(new Error('no page')));
    request.onerror = request.ontimeout = () => reject(new Error('no answer'));
    request.send(form ? new URLSearchParams(form) : null);
  });
}

// bare is what a part says: the keys of its forms, and what they say was seen, differ each time.
const bare = (part) => part.outerHTML.replace(/(<input type="hidden" name="(?:key|seen)" value=")[^"]*/g, '$1');

export function adopt(part) {
  const own = document.importNode(part, true);
  own.raw = bare(part);
  clock.localize(own);
  return own;
}

// replace puts a part in the place of another. What has the focus keeps it, by its id or its
// place, what is open stays open, and what somebody has begun to write stays: a part in which that
// has no place any more is left alone, and so is one that says the same.
export function replace(here, part) {
  if (here.raw === bare(part)) return here;
  const own = adopt(part), all = 'a, summary, button';
  const open = [...here.querySelectorAll('details')].map((d) => d.open);
  own.querySelectorAll('details').forEach((d, i) => { d.open = open[i]; });
  const active = document.activeElement, at = [...here.querySelectorAll(all)].indexOf(active);
  let writing = null;
  for (const input of here.querySelectorAll('input[id]')) {
    const next = own.querySelector('#' + CSS.escape(input.id));
    if (!next && input.value) return here;
    if (!next) continue;
    next.value = input.value;
    // What is written answers what was seen when it was begun.
    for (const name of input.value ? ['key', 'seen'] : []) {
      const was = input.form?.elements[name], is = next.form?.elements[name];
      if (was && is) is.value = was.value;
    }
    if (input === active) writing = [next, input.selectionStart, input.selectionEnd];
  }
  here.replaceWith(own);
  if (writing) {
    writing[0].focus({ preventScroll: true });
    writing[0].setSelectionRange(writing[1], writing[2]);
  } else if (at >= 0) own.querySelectorAll(all)[at]?.focus({ preventScroll: true });
  return own;
}

// fill loads what a part leaves to be loaded: it takes longer than the page.
export async function fill(root) {
  const here = root?.querySelector('[data-load]');
  if (!here || document.hidden) return;
  try {
    const { page } = await read(here.dataset.load);
    const part = page.querySelector('main .said');
    if (part && here.isConnected) replace(here, part);
  } catch { /* the link in it leads there */ }
}

// refresh has the part of the page that is to stay live written anew.
export async function refresh(selector) {
  const here = document.querySelector(selector);
  if (!here || document.hidden) return;
  try {
    const part = (await read(location.href)).page.querySelector(selector);
    if (part && here.isConnected) fill(replace(here, part));
  } catch { /* the line above the page says that nothing answers */ }
}
