// Bar charts, made of plain elements.

// A chart with a lying bar per run. `spec` has
//   parts(run)       a list of {name, value, className}: what the bar consists of
//   axis             a function that chooses an axis for all values
//   formatTick       a function that writes the value of a tick
//   format           a function that writes any other value
//   xName            what the axis is called
class BarChart {
  constructor(place, runs, spec) {
    this.spec = spec;
    const isFinite = (part) => Number.isFinite(part.value);
    this.rows = runs.map((run, index) => ({run, index, parts: run.finished ? spec.parts(run) : []}))
        .filter((row) => row.parts.length > 0 && row.parts.every(isFinite));
    for (const row of this.rows) row.total = row.parts.reduce((sum, part) => sum + part.value, 0);
    const totals = this.rows.map((row) => row.total), axis = spec.axis(totals);
    this.axes = {x: axis};
    this.ticks = axis.ticks(totals);
    const bars = addElement(place, 'div', 'bars');
    this.grid = addElement(bars, 'div', 'bar-ticks');
    this.grid.style.gridArea = `1 / 2 / span ${Math.max(1, this.rows.length)}`;
    this.rows.forEach((row, i) => this.addRow(bars, row, i + 1));
    addElement(place, 'div', 'axis-name below', spec.xName);
    this.resize();
  }

  addRow(bars, row, number) {
    row.element = addElement(bars, 'div', 'bar-row');
    const addCell = (column, className, text) => {
      const cell = addElement(row.element, 'span', className, text);
      cell.style.gridArea = `${number} / ${column}`;
      return cell;
    };
    addCell(1, 'bar-name', row.run.strategy).title = row.run.strategy;
    this.addParts(addCell(2, 'bar'), row);
    addCell(3, 'bar-value', this.spec.format(row.total));
  }

  addParts(bar, row) {
    let sum = 0, start = 0;
    for (const part of row.parts) {
      sum += part.value;
      const end = Math.max(start, share(this.axes.x, this.ticks, sum));
      const box = addElement(bar, 'span', part.className);
      box.style.width = 100 * (end - start) + '%';
      start = end;
      const text = `${part.name} ${this.spec.format(part.value)}`;
      const show = (event) => showTip(row.run.strategy, text, event.clientX, event.clientY);
      box.addEventListener('pointerenter', show);
      box.addEventListener('pointerleave', hideTip);
      box.addEventListener('click', show);  // A finger leaves as soon as it is lifted.
    }
  }

  // --- What the page calls.

  hide(hidden) {
    for (const row of this.rows) row.element.hidden = hidden.has(row.index);
  }

  // Makes all bars faint but that of a run; null: none.
  focus(index) {
    for (const row of this.rows) {
      row.element.classList.toggle('faint', index !== null && row.index !== index);
    }
  }

  // Chooses again which ticks have a text.
  resize() {
    this.grid.replaceChildren();
    const texts = tickTexts(this.axes.x, this.ticks, this.spec.formatTick, this.grid.clientWidth);
    texts.forEach((text, i) => {
      const line = addElement(this.grid, 'span');
      line.style.left = 100 * share(this.axes.x, this.ticks, this.ticks[i]) + '%';
      if (text !== null) addElement(line, 'span', '', text);
    });
  }

  recolor() {}
}
