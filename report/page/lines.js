// Line charts, drawn by uPlot.

const kNarrow = 500;  // charts that are narrower have no room for names at their lines
const kMostDots = 60;  // if a line has more points, there are no dots
const kReach = 30;  // the distance in pixels at which a point counts as pointed at

// A chart with a line per run. `spec` has
//   points(run)        a list of {x, y, text}, x ascending; text is shown when pointed at
//   xAxis, yAxis       functions that choose an axis for all values
//   formatX, formatY   functions that write the value of a tick
//   xName, yName       what the axes are called
//   target             a value of y that gets a line across, or null
class LineChart {
  constructor(place, runs, spec) {
    this.place = place;
    this.spec = spec;
    this.hidden = new Set();  // indices of runs
    this.lines = runs.map((run, index) => ({run, index, points: spec.points(run)}))
        .filter((line) => line.points.length > 0);
    if (this.lines.length === 0) return;
    this.axes = {x: spec.xAxis(this.values('x')), y: spec.yAxis(this.values('y'))};
    this.ticks = {};
    this.chooseTicks();
    // uPlot wants one list of x for all lines: each point has a row, in which the other lines have
    // no value.
    this.rows = this.lines.flatMap((line) => line.points.map((point) => ({line, point})))
        .sort((a, b) => a.point.x - b.point.x);
    const yOf = (line) => this.rows.map((row) => row.line === line ? row.point.y : undefined);
    this.data = [this.rows.map((row) => row.point.x), ...this.lines.map(yOf)];
    this.hit = null;  // the row that is pointed at
    this.longest = longestLabel(this.lines.map((line) => line.run.strategy));
    addElement(place, 'div', 'axis-name', spec.yName);
    this.plot = new uPlot(this.options(), this.data, place);
    addElement(place, 'div', 'axis-name below', spec.xName);
  }

  shownLines() {
    return this.lines.filter((line) => !this.hidden.has(line.index));
  }

  values(key) {
    return this.shownLines().flatMap((line) => line.points.map((point) => point[key]));
  }

  chooseTicks() {
    for (const key of ['x', 'y']) this.ticks[key] = this.axes[key].ticks(this.values(key));
  }

  // --- What the page calls.

  hide(hidden) {
    this.hidden = hidden;
    this.chooseTicks();
    this.lines.forEach((line, i) => this.plot.setSeries(i + 1, {show: !hidden.has(line.index)}));
    this.plot.setData(this.data);
  }

  // Makes all lines faint but that of a run; null: none.
  focus(index) {
    const line = this.lines.findIndex((each) => each.index === index);
    this.plot.setSeries(line < 0 ? null : line + 1, {focus: true});
  }

  resize() {
    if (this.place.clientWidth > 0) this.plot.setSize(this.size());
  }

  recolor() {
    this.plot.redraw(false, true);
  }

  // --- How uPlot draws.

  size() {
    const width = this.place.clientWidth;
    return {width, height: width < kNarrow ? 290 : 370};
  }

  labelRoom(plot) {
    return Math.min(this.longest, plot.width / 4);
  }

  options() {
    const {spec, ticks, axes} = this;
    const xTexts = ({bbox}) => tickTexts(axes.x, ticks.x, spec.formatX, bbox.width / uPlot.pxRatio);
    const right = (plot) => plot.width < kNarrow ? 22 : this.labelRoom(plot) + 14;
    return {
      ...this.size(),
      legend: {show: false},
      padding: [10, right, 0, 0],
      scales: {x: this.scale('x'), y: this.scale('y')},
      axes: [
        this.axis('x', {size: 26, values: xTexts}),
        this.axis('y', {size: 54, values: () => ticks.y.map(spec.formatY)}),
      ],
      series: [{}, ...this.lines.map((line) => this.series(line))],
      focus: {alpha: 0.15},
      cursor: this.cursor(),
      hooks: {
        drawAxes: [(plot) => this.drawTarget(plot)],
        draw: [(plot) => this.drawNames(plot)],
        setCursor: [(plot) => this.showHit(plot)],
      },
    };
  }

  scale(key) {
    const {forward, backward} = this.axes[key];
    const range = () => [this.ticks[key][0], this.ticks[key].at(-1)];
    return {time: false, distr: 100, fwd: forward, bwd: backward, range};
  }

  axis(key, more) {
    return {
      scale: key,
      splits: () => this.ticks[key],
      font: `12px ${kFont}`,
      gap: 6,
      stroke: () => cssColor('--soft'),
      grid: {stroke: () => cssColor('--line'), width: 1},
      ticks: {show: false},
      ...more,
    };
  }

  series({run}) {
    const longest = most(this.lines.map((line) => line.points.length));
    const color = () => runColor(run);
    return {
      scale: 'y',
      stroke: color,
      width: run.color === 0 ? 3 : 2,
      dash: run.dashed ? [6, 4] : undefined,
      points: {show: longest <= kMostDots, size: 5, fill: color},
    };
  }

  drawTarget({ctx, bbox, valToPos}) {
    const {target, formatY} = this.spec, ratio = uPlot.pxRatio;
    const y = target === null ? NaN : valToPos(target, 'y', true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = cssColor('--soft');
    ctx.lineWidth = ratio;
    ctx.setLineDash([2 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${11 * ratio}px ${kFont}`;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'bottom';
    ctx.fillText('target ' + formatY(target), bbox.left + 6 * ratio, y - 3 * ratio);
    ctx.restore();
  }

  drawNames(plot) {
    if (plot.width < kNarrow) return;
    const css = (pixels) => pixels / uPlot.pxRatio;
    const lines = this.shownLines().map((line) => ({
      name: line.run.strategy,
      color: runColor(line.run),
      alpha: plot.series[this.lines.indexOf(line) + 1].alpha,
      path: line.points.map((point) => (
        {x: css(plot.valToPos(point.x, 'x', true)), y: css(plot.valToPos(point.y, 'y', true))})),
    }));
    const {top, height} = plot.bbox;
    const area = {top: css(top), bottom: css(top + height), right: plot.width};
    drawLabels(plot.ctx, lines, area, this.labelRoom(plot));
  }

  // --- What is pointed at.

  cursor() {
    const isHit = (series, row) => row !== null && row.line === this.lines[series - 1];
    return {
      x: false,
      y: false,
      drag: {x: false, y: false},
      move: (plot, left, top) => {
        this.hit = this.nearest(plot, left, top);
        return [left, top];
      },
      dataIdx: (plot, series) => isHit(series, this.hit) ? this.rows.indexOf(this.hit) : null,
      points: {
        size: 11,
        width: 3,
        stroke: (plot, series) => runColor(this.lines[series - 1].run),
        fill: () => cssColor('--card'),
      },
    };
  }

  // Returns the row whose point is nearest; null if none is within reach.
  nearest(plot, left, top) {
    let best = null, least = kReach;
    for (const row of this.rows) {
      if (this.hidden.has(row.line.index)) continue;
      const {x, y} = row.point;
      const distance = Math.hypot(plot.valToPos(x, 'x') - left, plot.valToPos(y, 'y') - top);
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  }

  showHit(plot) {
    if (this.hit === null || plot.cursor.left < 0) return hideTip();
    const {line, point} = this.hit, corner = plot.over.getBoundingClientRect();
    showTip(line.run.strategy, point.text, corner.left + plot.valToPos(point.x, 'x'),
        corner.top + plot.valToPos(point.y, 'y'));
  }
}
