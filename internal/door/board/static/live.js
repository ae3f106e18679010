// The news from the board, as server-sent events. A page that nobody looks at has no
// connection; it goes on where it was once it is seen again.

import * as clock from './clock.js';

const listeners = { tasks: [], event: [], health: [], reset: [], link: [] };
let source = null;
let place = document.body.dataset.place;
let quiet = 0;
let retry = 0;

export function on(kind, listener) { listeners[kind].push(listener); }
export function seen(at) { place = at; }

function tell(kind, data) { for (const listener of listeners[kind]) listener(data); }

function hear(kind) {
  source.addEventListener(kind, (e) => {
    alive();
    if (e.lastEventId) place = e.lastEventId;
    tell(kind, JSON.parse(e.data));
  });
}

// alive notes that the board was heard. One that says nothing for longer than it would is
// gone, whatever the connection looks like.
function alive() {
  clearTimeout(quiet);
  quiet = setTimeout(lost, 40000);
  tell('link', 'ok');
}

function lost() {
  if (source) source.close();
  source = null;
  clearTimeout(quiet);
  clearTimeout(retry);
  if (document.hidden) return;
  tell('link', 'wait');
  retry = setTimeout(connect, 1000);
}

function connect() {
  clearTimeout(retry);
  if (source || document.hidden) return;
  source = new EventSource('/live?after=' + encodeURIComponent(place));
  source.onerror = lost;
  source.addEventListener('hello', (e) => {
    const { now, health } = JSON.parse(e.data);
    clock.set(now);
    alive();
    tell('health', health);
  });
  for (const kind of ['tasks', 'event', 'health']) hear(kind);
  source.addEventListener('reset', () => {
    source.close();
    source = null;
    clearTimeout(quiet);
    tell('reset');
  });
}

// begin connects, if the page knows already where to go on, and again whenever the page
// is seen again.
export function begin(now) {
  if (now) connect();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) { connect(); return; }
    if (source) source.close();
    source = null;
    clearTimeout(quiet);
    clearTimeout(retry);
  });
}

export { connect };
