// Cards and lines of events. Whatever others wrote becomes text, never markup.

import * as clock from './clock.js';

export function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

// initials are those of an agent's mark, as the server writes them.
function initials(name) {
  const parts = name.split(/[ \-_.@]+/).filter(Boolean).map((p) => [...p]);
  if (!parts.length) return '?';
  return parts.length === 1 ? parts[0].slice(0, 2).join('') : parts[0][0] + parts.at(-1)[0];
}

export function agent(name, hue) {
  const own = element('span', `agent hue${hue || 8}`, name);
  own.dataset.mark = initials(name);
  return own;
}

const readOnly = 'readOnly' in document.body.dataset;

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
    chips: Number(Boolean(c.fields)),
    more: Number(Boolean(c.why || c.progress || c.note && !c.from && !brief)),
    decide: Number(c.column === 'REVIEW' && !readOnly),
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
  if (c.made) {
    const age = element('span', 'age', clock.age(c.made));
    age.title = 'Made ' + clock.moment(c.made);
    meta.append(age);
  }
  li.replaceChildren(heading, meta);
  const lines = shape(c);
  if (c.agent && c.status === 'OPEN') meta.insertBefore(agent(c.agent, c.hue), meta.querySelector('.age'));
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
  if (lines.chips) {
    const chips = element('p', 'chips');
    for (const line of c.fields.split('\n')) chips.append(element('span', 'chip', line.replace('=', ': ')));
    li.append(chips);
  }
  if (c.why) li.append(element('p', 'why', c.why));
  else if (lines.more) li.append(element('p', 'note', c.progress || c.note));
  if (lines.decide) {
    const decide = element('p', 'decide');
    for (const [verb, name] of [['approve', 'Approve'], ['reopen', 'Return']]) {
      const link = element('a', 'button ' + verb, name + '…');
      link.href = `/tasks/${encodeURIComponent(c.id)}/${verb}`;
      link.setAttribute('aria-label', `${name} ${c.title}`);
      decide.append(link, ' ');
    }
    li.append(decide);
  }
  tick(li);
  if (focused) li.querySelector('.' + focused.split(' ').at(-1))?.focus({ preventScroll: true });
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
