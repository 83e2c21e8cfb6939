// The charts of the report page, from the JSON in the page (report/page_data.h), and the buttons
// that hide strategies.

const data = JSON.parse(document.getElementById('data').textContent);
root.classList.add('script');  // shows the charts

// Numbers that are not finite are null in JSON.
const isComplete = (item) => !Object.values(item).includes(null);

const runClass = (run) => `s${run.color}${run.dashed ? ' dash' : ''}`;

function testText(test) {
  return `${(100 * test.accuracy).toFixed(2)}\u00a0% after ${timeText(test.seconds)}\n` +
      `${bytesText(test.bytes)} per worker, step\u00a0${test.step}`;
}

const accuracyAgainst = (key) => ({
  points: (run) => run.tests.filter(isComplete)
      .map((test) => ({x: test[key], y: test.accuracy, text: testText(test)})),
  yAxis: accuracyAxis,
  formatY: percentTick,
  yName: 'test accuracy',
  target: data.target,
});

const lineCharts = {
  time: {
    ...accuracyAgainst('seconds'),
    xAxis: fittingAxis,
    formatX: secondsTick,
    xName: data.virtual_time ? 'training time, simulated' : 'training time',
  },
  bytes: {
    ...accuracyAgainst('bytes'),
    xAxis: fittingAxis,
    formatX: bytesText,
    xName: 'sent per worker',
  },
  steps: {
    ...accuracyAgainst('step'),
    xAxis: () => linearAxis,
    formatX: plainNumber,
    xName: 'step of rank 0',
  },
  residual: {
    points: (run) => run.residuals.filter(isComplete).map(({step, ratio}) => (
      {x: step, y: ratio, text: `residual ratio ${ratio.toPrecision(3)}\nstep\u00a0${step}`})),
    xAxis: () => linearAxis,
    yAxis: fittingAxis,
    formatX: plainNumber,
    formatY: plainNumber,
    xName: 'step of rank 0',
    yName: 'residual / gradient',
    target: null,
  },
};

const barCharts = {
  parts: {
    parts: (run) => run.step_parts
        .map(({name, seconds}) => ({name, value: seconds, className: name})),
    axis: () => linearAxis,
    formatTick: (seconds) => plainNumber(1e3 * seconds) + '\u00a0ms',
    format: timeText,
    xName: 'per step, mean over workers',
  },
  sent: {
    parts: (run) => [
      {name: 'per worker and step', value: run.bytes_per_worker_step, className: runClass(run)},
    ],
    axis: fittingAxis,
    formatTick: bytesText,
    format: bytesText,
    xName: 'per worker and step',
  },
  consensus: {
    parts: (run) => run.consensus_distance === null ? [] : [
      {name: 'consensus distance', value: run.consensus_distance, className: runClass(run)},
    ],
    axis: fittingAxis,
    formatTick: plainNumber,
    format: (distance) => String(Number(distance.toPrecision(2))),
    xName: 'distance / length of the mean model',
  },
};

// Says which axes are not linear.
function describeAxes(place, {x, y}) {
  const kStretched = 'The vertical axis stretches towards 100\u00a0%: halving the errors is the ' +
      'same distance everywhere.';
  const notes = [];
  if (x.note) notes.push(y ? 'The horizontal axis is logarithmic.' : 'The axis is logarithmic.');
  if (y?.note) notes.push(y.note === 'errors' ? kStretched : 'The vertical axis is logarithmic.');
  const note = place.closest('figure').querySelector('.scale');
  if (note) note.textContent = notes.join(' ');
}

const charts = [];
for (const [kind, specs] of [[LineChart, lineCharts], [BarChart, barCharts]]) {
  for (const [id, spec] of Object.entries(specs)) {
    const place = document.getElementById('chart-' + id);
    if (place === null) continue;  // The template leaves out charts without content.
    const chart = new kind(place, data.runs, spec);
    if (!chart.axes) continue;
    describeAxes(place, chart.axes);
    charts.push(chart);
  }
}

// A button hides its strategy, and makes the others faint while it is pointed at.
const hidden = new Set();  // indices of runs
for (const button of document.querySelectorAll('.legend button')) {
  const index = Number(button.dataset.run);
  const focus = () => charts.forEach((chart) => chart.focus(hidden.has(index) ? null : index));
  const unfocus = () => charts.forEach((chart) => chart.focus(null));
  button.addEventListener('click', () => {
    if (!hidden.delete(index)) hidden.add(index);
    button.setAttribute('aria-pressed', String(!hidden.has(index)));
    charts.forEach((chart) => chart.hide(hidden));
    focus();
  });
  for (const type of ['pointerenter', 'focus']) button.addEventListener(type, focus);
  for (const type of ['pointerleave', 'blur']) button.addEventListener(type, unfocus);
}

new ResizeObserver(() => charts.forEach((chart) => chart.resize()))
    .observe(document.querySelector('.charts'));
matchMedia('(prefers-color-scheme: dark)')
    .addEventListener('change', () => charts.forEach((chart) => chart.recolor()));
