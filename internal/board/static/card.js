// Cards and lines of events. Whatever others wrote becomes text, never markup.

import * as clock from './clock.js';

export function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

export function agent(name, hue) { return element('span', `agent hue${hue || 8}`, name); }

// safe is an address that may be a link.
function safe(address) { return /^https?:\/\//.test(address || '') ? address : ''; }

export function makeCard() {
  const li = element('li', 'card');
  li.setAttribute('role', 'listitem');
  return li;
}

const over = new Set(['COMPLETED', 'CANCELLED']);

// shape says which lines a card has, beside its title and the one below that.
export function shape(c) {
  const brief = over.has(c.status);
  return {
    brief, // a title that is one line, and no note
    who: Number(Boolean(c.agent && c.status !== 'OPEN')),
    bar: Number(Boolean(c.from && c.until)),
    more: Number(Boolean(c.why || c.progress || c.note && !c.from && !brief)),
  };
}

// showCard has a card show a task. What has the focus keeps it.
export function showCard(li, c) {
  const focused = li.contains(document.activeElement) ? document.activeElement.className : '';
  li.className = 'card' + (c.ready ? ' ready' : '') + (c.why ? ' waits' : '') + (Date.now() - c.fresh < 1500 ? ' fresh' : '');
  const heading = element('h3');
  const title = element('a', 'title', c.title);
  title.href = '/tasks/' + encodeURIComponent(c.id);
  heading.append(title);
  const meta = element('p', 'meta');
  if (c.word) meta.append(element('span', 'priority ' + (c.priority || ''), c.word));
  if (c.key) meta.append(element('span', 'key', c.key));
  if (safe(c.url)) {
    const notion = element('a', 'notion', 'Notion');
    notion.href = safe(c.url);
    notion.target = '_blank';
    notion.rel = 'noopener noreferrer';
    notion.setAttribute('aria-label', `${c.title} in Notion`);
    meta.append(notion);
  }
  li.replaceChildren(heading, meta);
  const lines = shape(c);
  if (c.agent && c.status === 'OPEN') meta.insertBefore(agent(c.agent, c.hue), meta.querySelector('.notion'));
  else if (lines.who) {
    const who = element('p', 'who');
    who.append(agent(c.agent, c.hue));
    if (c.until) who.append(element('span', 'left'));
    li.append(who);
  }
  if (lines.bar) {
    const bar = element('progress', 'lease');
    bar.max = c.until - c.from;
    li.append(bar);
  }
  if (c.why) li.append(element('p', 'why', c.why));
  else if (lines.more) li.append(element('p', 'note', c.progress || c.note));
  tick(li);
  if (focused) li.querySelector('.' + focused.split(' ')[0])?.focus({ preventScroll: true });
}

// tick has a card show how much of its lease is left now.
export function tick(li) {
  const c = li.item, left = li.querySelector('.left');
  if (!c || !left) return;
  const rest = c.until - clock.now();
  left.textContent = rest > 0 ? clock.length(rest) + ' left' : `over since ${clock.moment(c.until)}`;
  const bar = li.querySelector('progress');
  const how = rest <= 0 ? 'gone' : bar && rest < (c.until - c.from) / 5 ? 'soon' : '';
  left.className = 'left ' + how;
  if (!bar) return;
  bar.value = Math.max(0, rest);
  bar.className = 'lease ' + how;
  bar.setAttribute('aria-label', `Lease of ${c.agent}: ${left.textContent}`);
}

export function showEvent(li, e) {
  li.className = 'event';
  const at = element('span', 'at');
  const time = element('time', '', clock.moment(e.at));
  time.dateTime = new Date(e.at).toISOString();
  at.append(time);
  const what = element('span', 'what');
  if (e.task) {
    const link = element('a', '', e.title);
    link.href = '/tasks/' + encodeURIComponent(e.task);
    what.append(link, ' ');
  }
  if (e.text) what.append(element('span', 'text', e.text));
  what.title = [e.title, e.text].filter(Boolean).join(' · ');
  li.replaceChildren(at, ' ', element('span', `kind k-${e.kind}`, e.kind.replaceAll('_', ' ')), ' ',
    e.agent ? agent(e.agent, e.hue) : element('span', 'agent none', '–'), ' ', what);
}

export function makeEvent() {
  const li = element('li', 'event');
  li.setAttribute('role', 'listitem');
  return li;
}

// matching says what a search for words finds, in the texts that an item has; the server
// does the same without script.
export function matching(words, texts) {
  const all = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!all.length) return () => true;
  return (item) => {
    item.inside ??= texts(item).filter(Boolean).join('\n').toLowerCase();
    return all.every((word) => item.inside.includes(word));
  };
}
