// Times: how far the clock of this device is from that of the board, and how people read them.

let ahead = 0; // the board's clock minus this one, in milliseconds

export function set(now) { ahead = now - Date.now(); }
export function now() { return Date.now() + ahead; }

const hours = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const days = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

const dates = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

// moment writes a time of today, or a date and a time.
export function moment(ms) {
  const at = new Date(ms);
  return (at.toDateString() === new Date(now()).toDateString() ? hours : days).format(at);
}

// length writes about how long something lasts, in its largest units.
export function length(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const h = Math.floor(minutes / 60);
  if (h < 24) return minutes % 60 ? `${h} h ${minutes % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

// age writes how long ago something was, in its largest unit.
export function age(ms) {
  const minutes = Math.max(0, Math.round((now() - ms) / 60000));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.floor(minutes / 1440)} d`;
}

// localize writes the times that the server has put on a page in this device's zone.
export function localize(root) {
  for (const t of root.querySelectorAll('time[datetime]')) {
    const at = Date.parse(t.dateTime);
    t.textContent = t.dataset.dated === undefined ? moment(at) : dates.format(at);
  }
}
