// Values as text, and the axes of charts: which values get a tick, and where a value stands.
'use strict';

// Texts look like those of the table (readable.cpp). \u00a0 is a space that does not break lines.

// Without the digits that come from adding up steps of an axis: 0.6, not 0.6000000000000001.
const plainNumber = (value) => String(Number(value.toPrecision(6)));
const percentTick = (part) => plainNumber(100 * part) + '\u00a0%';
const secondsTick = (seconds) => plainNumber(seconds) + '\u00a0s';

function bytesText(bytes) {
  const rounded = (value, digits) => String(Number(value.toFixed(digits)));
  if (bytes < 1e3) return rounded(bytes, 0) + '\u00a0B';
  if (bytes < 1e6) return rounded(bytes / 1e3, 1) + '\u00a0kB';
  if (bytes < 1e9) return rounded(bytes / 1e6, 1) + '\u00a0MB';
  return rounded(bytes / 1e9, 2) + '\u00a0GB';
}

function timeText(seconds) {
  if (seconds < 0.01) return (seconds * 1e3).toFixed(1) + '\u00a0ms';
  if (seconds < 1) return (seconds * 1e3).toFixed(0) + '\u00a0ms';
  if (seconds < 60) return seconds.toFixed(1) + '\u00a0s';
  const whole = (value) => String(Math.floor(value));
  const two = (value) => whole(value).padStart(2, '0');
  if (seconds < 3600) return `${whole(seconds / 60)}\u00a0min\u00a0${two(seconds % 60)}\u00a0s`;
  return `${whole(seconds / 3600)}\u00a0h\u00a0${two(seconds / 60 % 60)}\u00a0min`;
}

// An axis has
//   note               '' if it is linear, else 'logarithmic' or 'errors'
//   forward, backward  functions from values to places, and back
//   ticks(values)      the ticks of an axis for these values, ascending, at least two; the ends of
//                      the axis are ticks

// Returns 1, 2 or 5 times a power of ten, not less than the value.
function roundStep(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((factor) => factor * power >= value * (1 - 1e-9)) ?? 10);
}

function linearTicks(low, high) {
  if (!(high > low)) high = low + Math.max(1e-9, Math.abs(low));
  const step = roundStep((high - low) / 5);
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(high / step - 1e-9);
  return Array.from({length: last - first + 1}, (_, i) => (first + i) * step);
}

// Returns the part of a sorted list that encloses low ... high most closely; at least two ticks.
function enclosing(list, low, high) {
  let first = Math.max(0, list.findLastIndex((tick) => tick <= low));
  let last = list.findIndex((tick) => tick >= high);
  if (last < 0) last = list.length - 1;
  if (first >= last && first === 0) last = 1;
  if (first >= last) first = last - 1;
  return list.slice(first, last + 1);
}

function logTicks(low, high) {
  const all = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)) + 1; ++e) {
    all.push(...[1, 2, 5].map((factor) => Number(`${factor}e${e}`)));
  }
  const ticks = enclosing(all, low, high);
  if (ticks.length <= 8) return ticks;
  // If there are many, only powers of ten are ticks between the ends.
  const inner = ticks.slice(1, -1).filter((tick) => tick.toExponential().startsWith('1e'));
  return [ticks[0], ...inner, ticks.at(-1)];
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

const identity = (value) => value;
const linearAxis = {
  note: '', forward: identity, backward: identity,
  ticks: (values) => linearTicks(Math.min(0, least(values)), Math.max(0, most(values)) || 1),
};

// Returns a logarithmic axis if the positive values differ by more than a factor of 30.
function fittingAxis(values) {
  const isPositive = (value) => value > 0, low = least(values.filter(isPositive));
  if (least(values) < 0 || !(most(values) > 30 * low)) return linearAxis;
  const [lowest] = logTicks(low, most(values));
  return {
    note: 'logarithmic',
    forward: (value) => Math.log(Math.max(value, lowest)),  // 0 stands at the low end
    backward: Math.exp,
    ticks(shown) {
      const some = shown.filter(isPositive);
      return some.length ? logTicks(least(some), most(some)) : [1, 10];
    },
  };
}

// Returns an axis for shares of right answers. If some models are good, equal ratios of errors are
// equally far apart: from 98 % to 99 % it is as far as from 80 % to 90 %.
function accuracyAxis(values) {
  if (!(most(values) >= 0.9)) return linearAxis;
  const list = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999];
  return {
    note: 'errors',
    forward: (value) => -Math.log(1 - Math.min(value, 0.999)),
    backward: (place) => 1 - Math.exp(-place),
    ticks: (shown) => shown.length ? enclosing(list, least(shown), most(shown)) : list,
  };
}

// Returns where a value stands between the first (0) and the last (1) tick.
function share(axis, ticks, value) {
  const low = axis.forward(ticks[0]);
  return (axis.forward(value) - low) / (axis.forward(ticks.at(-1)) - low);
}

// Returns the texts of the ticks; null where one would run into the text before it.
function tickTexts(axis, ticks, format, width) {
  let free = -Infinity;
  return ticks.map((tick) => {
    const text = format(tick), half = 3.6 * text.length, x = share(axis, ticks, tick) * width;
    if (x - half < free) return null;
    free = x + half + 8;
    return text;
  });
}
