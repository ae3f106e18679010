// Keeps a page up to date. Without it, all of the page is there, as of when it came.

import * as clock from './clock.js';
import * as live from './live.js';
import * as swap from './swap.js';
import * as pane from './pane.js';
import * as columns from './columns.js';
import * as stream from './stream.js';

const { view } = document.body.dataset;
let healthy = true;
let reached = 'ok';
let away = 0; // since when it is not
let asked = 0; // when it was asked last whether it still lets this page in
let health = null;

function vital(name, text, bad) {
  const dd = document.querySelector(`[data-vital="${name}"]`);
  if (dd.textContent !== text) dd.textContent = text;
  dd.classList.toggle('bad', Boolean(bad));
}

// standing shows how the daemon does, and whether the board itself is reached.
function standing() {
  const line = document.getElementById('link'), trouble = document.getElementById('trouble');
  let said = '';
  if (reached !== 'ok' && Date.now() - away > 2500) said = 'The board does not answer: trying again. It may have been stopped where it was started.';
  else if (health && !health.up && !health.since) said = 'The daemon has yet to answer: trying.';
  else if (health && !health.up) said = `The daemon does not answer since ${clock.moment(health.since)}: trying again. What is shown may be old. (${health.error})`;
  line.className = 'link ' + (said ? 'bad' : 'ok');
  line.textContent = said ? 'down' : 'live';
  if (trouble.textContent !== said) trouble.textContent = said;
  trouble.hidden = !said;
  document.querySelector('.vitals').classList.toggle('old', Boolean(said));
  // A board that was started anew wants another link: its page says so.
  if (said && reached !== 'ok' && Date.now() - asked > 5000) {
    asked = Date.now();
    fetch('/events', { method: 'HEAD' }).then((a) => { if (a.status === 401) location.reload(); }).catch(() => {});
  }
  if (!health) return;
  vital('ready', String(health.ready));
  vital('held', String(health.held));
  vital('owed', String(health.owed), health.owed_since && clock.now() - health.owed_since > 300000);
  const age = clock.now() - (health.synced || 0);
  vital('synced', health.syncing ? `reading… ${health.syncing}` : health.synced ? `${clock.length(age)} ago` : 'never', health.stale);
  vital('notion', health.paused > clock.now() ? 'paused' : health.trouble ? 'trouble' : 'fine', health.trouble);
}

function feel(h) {
  const back = health && !health.up && h.up;
  health = h;
  standing();
  if (document.getElementById('brake').dataset.brake !== (h.brake || '')) swap.refresh('#brake');
  const pause = document.getElementById('pause');
  if (pause) pause.hidden = Boolean(h.halted);
  if (back) refresh();
}

function refresh() { swap.refresh('main #live'); }

// load reads everything, and has the news go on from there.
async function load() {
  try {
    const answer = await fetch('/board.json');
    if (answer.status === 401) { location.reload(); return; }
    const snapshot = await answer.json();
    clock.set(snapshot.now);
    live.seen(snapshot.place);
    reached = 'ok';
    feel(snapshot.health);
    if (view === 'tasks') columns.take(snapshot);
    if (view === 'events') stream.restart(snapshot);
    live.connect();
  } catch {
    if (reached === 'ok') away = Date.now();
    reached = 'wait';
    standing();
    setTimeout(load, 1000);
  }
}

document.body.classList.add('scripted');
clock.set(Number(document.body.dataset.now));
clock.localize(document);
pane.begin();
swap.fill(document.querySelector('main #live'));
live.on('link', (l) => {
  if (reached === l) return;
  reached = l;
  away = Date.now(); // a moment is nothing to speak of
  standing();
});
live.on('health', feel);
live.on('reset', load);

// Parts that the server writes come anew soon after something happened, and from time to time.
const part = document.querySelector('main #live');
let soon = 0;
if (part) {
  const every = Number(part.dataset.refresh) * 1000;
  setInterval(refresh, Math.max(every, 5000));
  live.on('event', (e) => {
    if (part.dataset.task && part.dataset.task !== e.task) return;
    soon = soon || setTimeout(() => { soon = 0; refresh(); }, Math.min(every, 1000));
  });
}
live.on('event', (e) => { if (e.task) pane.again(e.task); });
if (view === 'tasks' && document.querySelector('.columns')) columns.begin();
if (view === 'events') stream.begin();
const whole = (view === 'tasks' && document.querySelector('.columns')) || view === 'events';
live.begin(!whole);
if (whole) load();
setInterval(standing, 1000);
