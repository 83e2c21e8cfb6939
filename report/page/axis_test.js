// Properties of axis.js, run by node: `node axis_test.js`.
'use strict';

const assert = require('node:assert');
const {readFileSync} = require('node:fs');
const {join} = require('node:path');

const names = [
  'linearTicks', 'logTicks', 'linearAxis', 'fittingAxis', 'accuracyAxis', 'share', 'tickTexts',
  'bytesText', 'timeText', 'percentTick',
];
const source = readFileSync(join(__dirname, 'axis.js'), 'utf8');
const axis = new Function(`${source}; return {${names}};`)();

// Ticks are round.
assert.deepEqual(axis.linearTicks(0, 9.3), [0, 2, 4, 6, 8, 10]);
assert.deepEqual(axis.logTicks(3, 40), [2, 5, 10, 20, 50]);
assert.deepEqual(axis.logTicks(3, 4000), [2, 10, 100, 1000, 5000]);
assert.deepEqual(
    axis.accuracyAxis([0.6, 0.985]).ticks([0.6, 0.985]), [0.5, 0.8, 0.9, 0.95, 0.98, 0.99]);

// An axis is logarithmic if the range needs it; 0 has no logarithm.
assert.equal(axis.fittingAxis([1, 20]).note, '');
assert.equal(axis.fittingAxis([1, 100]).note, 'logarithmic');
assert.equal(axis.fittingAxis([0, 100]).note, '');
const withZero = axis.fittingAxis([0, 1, 100]), itsTicks = withZero.ticks([0, 1, 100]);
assert.equal(itsTicks[0], 1);
assert.equal(axis.share(withZero, itsTicks, 0), 0);

// Unusual values have a place, too: none at all, only zeros, a perfect model.
for (const values of [[], [0], [1], [0, 0, 0]]) {
  for (const made of [axis.linearAxis, axis.fittingAxis(values), axis.accuracyAxis(values)]) {
    const ticks = made.ticks(values);
    assert.ok(ticks.length >= 2);
    for (const value of values) {
      const place = axis.share(made, ticks, value);
      assert.ok(place >= 0 && place <= 1);
    }
  }
}

// Ticks ascend and enclose the values, and places keep their order.
for (let exponent = -6; exponent < 10; ++exponent) {
  for (const factor of [1, 1.003, 1.7, 9.99, 31, 4567, 1e7]) {
    const low = 1.234 * 10 ** exponent, high = low * factor;
    const shares = [low / (1 + high), high / (1 + high)];
    const cases = [
      [axis.linearAxis, [low, high]],
      [axis.fittingAxis([low, high]), [low, high]],
      [axis.accuracyAxis(shares), shares],
    ];
    for (const [made, values] of cases) {
      const ticks = made.ticks(values), about = `${values}: ${ticks}`;
      assert.ok(ticks.length >= 2 && ticks.length < 20, about);
      assert.ok(ticks.every((tick, i) => i === 0 || tick > ticks[i - 1]), about);
      assert.ok(ticks[0] <= values[0] * (1 + 1e-6), about);
      assert.ok(ticks.at(-1) >= Math.min(values[1], 0.999) * (1 - 1e-6), about);
      const places = Array.from({length: 21}, (_, i) => (
        axis.share(made, ticks, ticks[0] + (ticks.at(-1) - ticks[0]) * i / 20)));
      assert.ok(places.every((place, i) => i === 0 || place >= places[i - 1]), about);
      assert.ok(Math.abs(places[0]) < 1e-9 && Math.abs(places.at(-1) - 1) < 1e-9, about);
    }
  }
}

// Texts of ticks do not run into each other.
const inWords = (value) => `${value} milliseconds`;
const texts = axis.tickTexts(axis.linearAxis, [0, 50, 100], inWords, 150);
assert.deepEqual(texts, ['0 milliseconds', null, '100 milliseconds']);

// Values read like those of the table.
assert.equal(axis.bytesText(494500), '494.5\u00a0kB');
assert.equal(axis.bytesText(2e9), '2\u00a0GB');
assert.equal(axis.timeText(0.0042), '4.2\u00a0ms');
assert.equal(axis.timeText(185), '3\u00a0min\u00a005\u00a0s');
assert.equal(axis.timeText(3720), '1\u00a0h\u00a002\u00a0min');
assert.equal(axis.percentTick(0.995), '99.5\u00a0%');
