// Keeps an open page up to date, and goes from page to page in place. An address says all that a
// page shows, and the server writes it: this reads the address as a document, in which nothing
// runs, and changes in the page what is otherwise there. Without it every link and form works.

const { Idiomorph } = window;
const wide = matchMedia('(min-width: 62rem)');
let turn = 0; // what was gone to last is what is shown
let under = 0; // the turn that is under way; 0 for none
let busy = false; // the address is read again
let at = 0; // when the page was read
let went = Date.now(); // when it was gone to
let answered = false; // the page, or what is beside the list, answers a form, and has no address of its own

// read answers with the document at an address, or that answers a form.
function read(url, form) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.responseType = 'document';
    request.timeout = 60000;
    request.open(form ? 'POST' : 'GET', url);
    request.onload = () => (request.response?.body ? resolve({ page: request.response, url: new URL(request.responseURL), status: request.status }) : reject(new Error('no page')));
    request.onerror = request.ontimeout = () => reject(new Error('no answer'));
    request.send(form ? new URLSearchParams(form) : null);
  });
}

// localize writes the times of a page in this device's zone.
const short = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const hours = new Intl.DateTimeFormat(undefined, short);
const days = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', ...short });
const dates = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric', ...short });
function localize(root) {
  const today = new Date().toDateString();
  for (const t of root.querySelectorAll('time[datetime]')) {
    const moment = new Date(t.dateTime);
    t.textContent = (t.dataset.dated !== undefined ? dates : moment.toDateString() === today ? hours : days).format(moment);
  }
}

// written reports whether somebody has begun to fill in a form, or one came back undone.
function written(form) {
  if (form.dataset.refused !== undefined) return true;
  return [...form.elements].some((e) => {
    if (e.type === 'hidden' || e.tagName === 'BUTTON' || e.disabled) return false;
    if (e.tagName === 'SELECT') return [...e.options].some((o) => o.selected !== o.defaultSelected) && e.selectedIndex > 0;
    if (e.type === 'checkbox') return e.checked !== e.defaultChecked;
    return e.value !== e.defaultValue;
  });
}

const holds = (node) => node.matches?.('form[method=post]') ? written(node) : Boolean(node.querySelector && [...node.querySelectorAll('form[method=post]')].some(written));

// change has the page show another document, or the same one as it is by now. What somebody has
// typed, opened, selected or scrolled stays.
function change(page, again) {
  localize(page);
  document.title = page.title;
  Idiomorph.morph(document.body, page.body, {
    callbacks: {
      beforeNodeMorphed(old, fresh) {
        if (old.nodeType !== Node.ELEMENT_NODE) return true;
        if (again && answered && old.id === 'pane') return false;
        if (old.matches('form[method=post]') && old.getAttribute('action') === fresh.getAttribute?.('action') && (written(old) || again && old.matches('.question'))) {
          const news = fresh.querySelector('.meanwhile');
          if (news && old.dataset.refused === undefined) {
            old.querySelector('.meanwhile')?.remove();
            old.prepend(news);
          }
          return false;
        }
        if (old.matches('.card input') && old.value === fresh.value) return false; // selected or not
        // Whoever types goes on meanwhile.
        return !(old === document.activeElement && old.matches('input, textarea, select') && (again || old.type === 'search'));
      },
      beforeNodeRemoved: (node) => !(again && node.nodeType === Node.ELEMENT_NODE && (holds(node) || answered && node.id === 'pane')),
      beforeAttributeUpdated(name, node) {
        if (name === 'open' && node.matches('details, dialog')) return false;
        return !(name === 'hidden' && node.id === 'away');
      },
    },
  });
  selected();
}

// refresh reads the address again. An open form is told what has changed since it was opened.
async function refresh() {
  if (document.hidden || answered && !document.getElementById('pane')) return;
  if (under || busy) { due(); return; }
  busy = true;
  const mine = turn, url = new URL(location.href);
  if (url.searchParams.has('done') && Date.now() - went > 8000) { // it was read
    url.searchParams.delete('done');
    history.replaceState(null, '', url);
  }
  const seen = document.querySelector('form.question input[name=seen]')?.value;
  if (seen) url.searchParams.set('was', seen);
  at = Date.now();
  try {
    const { page, status } = await read(url);
    if (mine !== turn) return;
    if (status === 401) { location.reload(); return; }
    if (page.getElementById('main')) change(page, true);
  } catch { /* the line above the page says that nothing answers */ } finally { busy = false; }
}

// refused says in a form why it was not done.
function refused(form, page) {
  const why = page.querySelector('.sheet [role=alert], .notice h1 + p');
  if (!why) return;
  form.querySelector('[role=alert]')?.remove();
  why.className ||= 'problem';
  why.setAttribute('role', 'alert');
  form.dataset.refused = '';
  form.prepend(why);
}

// go shows another address, or what answers a form.
async function go(url, { form, sender, replace } = {}) {
  const mine = under = ++turn, opener = document.activeElement?.closest?.('a')?.getAttribute('href');
  clearTimeout(later);
  later = 0;
  try {
    const answer = await read(url, form), undone = form && answer.status >= 400;
    for (const b of sender?.querySelectorAll('button') ?? []) b.disabled = false;
    if (form && !undone) { sender.reset(); delete sender.dataset.refused; }
    if (mine === turn) under = 0;
    if (undone && (mine !== turn || answer.status !== 409)) refused(sender, answer.page);
    if (mine !== turn || undone && answer.status !== 409) return;
    if (!answer.page.getElementById('main')) { location.assign(answer.url); return; }
    answered = Boolean(form) && answer.url.pathname === url.pathname;
    if (undone) sender.remove();
    if (!answered) history[replace ? 'replaceState' : 'pushState'](null, '', answer.url);
    const before = document.getElementById('pane');
    change(answer.page, false);
    at = went = Date.now();
    const pane = document.getElementById('pane');
    if (document.activeElement?.closest('main form[method=get]')) ; // somebody goes on typing a filter
    else if (pane) {
      pane.scrollTop = 0;
      (pane.querySelector('form.question :is(textarea, input:not([type=hidden]), select)') || pane.querySelector('h1'))?.focus({ preventScroll: true });
    } else if (before) (document.querySelector(`main a[href="${CSS.escape(opened)}"]`) || document.getElementById('main')).focus({ preventScroll: true });
    else if (!replace) {
      scrollTo(0, 0);
      document.querySelector('main .sheet form :is(textarea, input:not([type=hidden]), select)')?.focus();
    }
    if (pane && !before) opened = opener || '';
  } catch {
    for (const b of sender?.querySelectorAll('button') ?? []) b.disabled = false;
    if (mine !== turn) return;
    under = 0;
    document.getElementById('away').hidden = false;
  }
}
let opened = ''; // where the link leads that opened the panel

// beside returns the address that shows a task or a form beside the list, where there is room.
function beside(to) {
  const list = document.body.dataset.beside, is = to.pathname.match(/^\/(?:tasks\/([^/]+)(?:\/(\w+))?|(new|sweep|pause))$/);
  if (!list || !wide.matches || !is || is[2] === 'page') return to;
  const url = new URL(list, location.href);
  for (const [name, value] of to.searchParams) url.searchParams.set(name, value);
  if (is[1]) url.searchParams.set('task', decodeURIComponent(is[1]));
  if (is[2] || is[3]) url.searchParams.set('do', is[2] || is[3]);
  return url;
}

const alone = () => document.getElementById('pane')?.querySelector('.close');

document.addEventListener('click', (e) => {
  const link = e.target.closest('a');
  if (!link || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || link.getAttribute('target')) return;
  const to = new URL(link.getAttribute('href'), location.href); // one in a drawing has no address of its own
  if (to.origin !== location.origin || to.pathname.endsWith('.csv') || to.pathname.startsWith('/enter')) return;
  if (to.hash && to.pathname + to.search === location.pathname + location.search) return;
  e.preventDefault();
  if ([...document.querySelectorAll('#pane form[method=post], form.question')].some(written) && !confirm('Drop what you have typed?')) return;
  const close = link.dataset.close !== undefined && alone();
  go(close ? new URL(close.href) : beside(to));
});

document.addEventListener('submit', (e) => {
  const form = e.target;
  if (form.method === 'dialog') return;
  e.preventDefault();
  const data = new FormData(form, e.submitter);
  if (form.method === 'get') {
    const to = new URL(form.action);
    to.search = new URLSearchParams([...data].filter(([, value]) => value));
    go(to);
    return;
  }
  for (const b of form.querySelectorAll('button')) b.disabled = true;
  go(new URL(form.getAttribute('action'), location.href), { form: data, sender: form });
});

// A filter applies as it is changed.
document.addEventListener('change', (e) => {
  if (e.target.dataset.auto !== undefined) e.target.form.requestSubmit();
  selected();
});
document.addEventListener('reset', () => setTimeout(selected));
let soon = 0;
document.addEventListener('input', (e) => {
  if (e.target.type !== 'search') return;
  clearTimeout(soon);
  soon = setTimeout(() => {
    const to = new URL(e.target.form.action);
    to.search = new URLSearchParams([...new FormData(e.target.form)].filter(([, value]) => value));
    go(to, { replace: to.pathname === location.pathname });
  }, 250);
});
window.addEventListener('popstate', () => go(new URL(location.href), { replace: true }));

// selected shows what can be done with the cards that are selected.
function selected() {
  const bulk = document.getElementById('bulk'), n = document.querySelectorAll('.card input:checked').length;
  if (!bulk) return;
  bulk.classList.toggle('some', n > 0);
  bulk.querySelector('output').textContent = n;
}

// Keys. Arrows select a card, from the first one on.
const cards = (within) => [...within.querySelectorAll('.card a.title, .decisions a, .rows a')].filter((a) => a.checkVisibility() && a.getAttribute('href').startsWith('/tasks/'));
function step(key) {
  const main = document.getElementById('main'), here = document.activeElement?.closest?.('.card, .rows li, .decisions li');
  const column = here?.closest('.column');
  if (column && (key === 'ArrowLeft' || key === 'ArrowRight')) {
    const columns = [...main.querySelectorAll('.column')].filter((c) => cards(c).length);
    const to = columns[columns.indexOf(column) + (key === 'ArrowRight' ? 1 : -1)];
    return to && cards(to)[Math.min(cards(column).findIndex((a) => here.contains(a)), cards(to).length - 1)];
  }
  const all = cards(key.length > 1 && column || main); // J and K go on to the next column
  if (key === 'Home') return all[0];
  if (key === 'End') return all.at(-1);
  const i = all.findIndex((a) => here?.contains(a)), down = key === 'ArrowDown' || key === 'ArrowRight' || key === 'j';
  return here ? all[i + (down ? 1 : -1)] : all[0];
}
const task = () => document.querySelector('#pane [data-task], main [data-task]')?.dataset.task || document.activeElement?.closest?.('.card, .rows li, .decisions li')?.querySelector('a[href^="/tasks/"]')?.getAttribute('href').split('/')[2];

document.addEventListener('keydown', (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === 'k') { e.preventDefault(); document.getElementById('find').focus(); return; }
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  if (e.key === 'Escape' && !document.querySelector('dialog[open]') && alone()) { alone().click(); return; }
  if (e.target.closest?.('input, select, textarea, dialog')) return;
  const can = document.body.dataset.readOnly === undefined, id = task();
  if (/^(Arrow|Home$|End$)/.test(e.key)) {
    if (e.target.closest('summary, .pane')) return;
    const to = step(e.key);
    if (!to) return;
    e.preventDefault();
    to.focus({ preventScroll: true });
    to.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  } else if (e.key === 'j' || e.key === 'k') {
    const on = document.querySelector('.card.on a.title');
    if (on) on.focus({ preventScroll: true });
    const to = step(e.key);
    if (to && alone()) to.click();
    to?.focus();
  } else if (e.key === '?') document.getElementById('keys').showModal();
  else if (e.key === '/') { e.preventDefault(); (document.getElementById('words') || document.getElementById('find')).focus(); }
  else if (can && e.key === 'n') { e.preventDefault(); go(beside(new URL('/new', location.href))); }
  else if (can && id && e.key === 'c' && document.getElementById('comment')) { e.preventDefault(); document.getElementById('comment').focus(); }
  else if (can && id && 'cab'.includes(e.key)) {
    e.preventDefault();
    const review = document.querySelector(`a[href="/tasks/${id}/approve"]`);
    go(beside(new URL(`/tasks/${id}/${{ c: 'comment', a: review ? 'approve' : 'answer', b: 'block' }[e.key]}`, location.href)));
  }
});

// A card that is dropped on a column asks what getting there takes.
if (document.body.dataset.readOnly === undefined) {
  const over = (e) => e.target.closest?.('.column:not([data-status=PEOPLE])');
  let card = null;
  document.addEventListener('dragstart', (e) => {
    const li = e.target.closest?.('.column .card');
    card = li && { href: li.querySelector('.title').getAttribute('href'), from: over(e) };
  });
  const mark = (to) => { for (const c of document.querySelectorAll('.column')) c.classList.toggle('over', c === to); };
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
    if (to !== card.from) go(beside(new URL(`${card.href}/move?to=${to.dataset.status}`, location.href)));
  });
}

// The news. A page that nobody looks at has no connection, and reads its address once it is seen.
let source = null, quiet = 0, retry = 0, later = 0;
function heard() {
  clearTimeout(quiet);
  quiet = setTimeout(lost, 40000);
  document.getElementById('away').hidden = true;
  document.documentElement.dataset.link = 'live';
}
function lost() {
  source?.close();
  source = null;
  clearTimeout(quiet);
  clearTimeout(retry);
  if (document.hidden) return;
  delete document.documentElement.dataset.link;
  retry = setTimeout(() => {
    document.getElementById('away').hidden = false;
    connect();
    fetch('/search', { method: 'HEAD' }).then((a) => { if (a.status === 401) location.reload(); }).catch(() => {});
  }, 1000);
}
function due() {
  if (later) return;
  later = setTimeout(() => { later = 0; refresh(); }, Math.max(100, at + Math.max(500, Number(document.body.dataset.every)) - Date.now()));
}
function connect() {
  if (source || document.hidden) return;
  source = new EventSource('/live?after=' + encodeURIComponent(document.body.dataset.place));
  source.onerror = lost;
  source.addEventListener('hello', () => { heard(); if (Date.now() - at > 10000) due(); });
  source.addEventListener('changed', () => { heard(); due(); });
}
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) { connect(); return; }
  source?.close();
  source = null;
  clearTimeout(quiet);
  clearTimeout(retry);
});

at = Date.now();
localize(document);
selected();
connect();
