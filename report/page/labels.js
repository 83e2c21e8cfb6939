// Names at the ends of lines, placed so that none covers another one.

const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const kLabelFont = `600 12px ${kFont}`;
const kLabelHeight = 14;

// The distances by which a name can move away from its line, the shortest first.
const labelShifts = [];
for (let column = 0; column <= 22; ++column) {
  for (let row = -22; row <= 22; ++row) {
    const x = 8 * column, y = kLabelHeight / 2 * row;
    labelShifts.push({x, y, length: Math.hypot(x, y)});
  }
}
labelShifts.sort((a, b) => a.length - b.length);

const overlap = (a, b) => a.x < b.x + b.width + 4 && b.x < a.x + a.width + 4 &&
    Math.abs(a.y - b.y) < kLabelHeight;
const covers = (box, spot) => box.x < spot.x && spot.x < box.x + box.width &&
    Math.abs(spot.y - box.y) < kLabelHeight / 2;

// Returns the box nearest to `wanted` that overlaps no other box and covers few spots of lines. A
// box has its left end (x), its middle line (y) and its width; area has top, bottom and right.
function placeLabel(wanted, others, spots, area) {
  const kCost = 8;  // one covered spot is as bad as this distance
  let best = wanted, least = Infinity;
  for (const shift of labelShifts) {
    if (shift.length >= least) break;
    const box = {x: wanted.x + shift.x, y: wanted.y + shift.y, width: wanted.width};
    if (shift.x > 0 && box.x + box.width > area.right) continue;
    if (shift.y !== 0 && (box.y < area.top || box.y > area.bottom)) continue;
    if (others.some((other) => overlap(box, other))) continue;
    const cost = shift.length + kCost * spots.filter((spot) => covers(box, spot)).length;
    if (cost < least) [best, least] = [box, cost];
  }
  return best;
}

// Returns spots along paths, close enough together that no name fits between two of them. Spots
// that are almost the same count once.
function spotsAlong(paths) {
  const kDistance = 6, spots = new Map();
  const add = (x, y) => {
    spots.set(`${Math.round(2 * x / kDistance)} ${Math.round(2 * y / kDistance)}`, {x, y});
  };
  for (const path of paths) {
    path.slice(1).forEach((to, i) => {
      const from = path[i], dx = to.x - from.x, dy = to.y - from.y;
      const count = Math.ceil(Math.hypot(dx, dy) / kDistance);
      for (let n = 0; n < count; ++n) add(from.x + n / count * dx, from.y + n / count * dy);
    });
  }
  return [...spots.values()];
}

// Returns as much of a name as there is room for.
function shortened(ctx, name, room) {
  if (ctx.measureText(name).width <= room) return name;
  let length = name.length;
  while (length > 1 && ctx.measureText(name.slice(0, length) + '…').width > room) --length;
  return name.slice(0, length) + '…';
}

// Draws a name, with a thin line to the end of its line if it had to move away.
function drawLabel(ctx, name, box, end, moved, color, alpha) {
  ctx.fillStyle = ctx.strokeStyle = color;
  if (moved) {
    ctx.globalAlpha = 0.6 * alpha;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(end.x + 3, end.y);
    ctx.lineTo(box.x - 2, box.y);
    ctx.stroke();
  }
  ctx.globalAlpha = alpha;
  ctx.lineWidth = 4;
  ctx.strokeStyle = cssColor('--card');
  ctx.strokeText(name, box.x, box.y);
  ctx.fillText(name, box.x, box.y);
}

// Draws the names of lines onto a canvas. Each line has name, color, alpha and path, a list of
// places in CSS pixels; `room` is the longest that a name can be.
function drawLabels(ctx, lines, area, room) {
  ctx.save();
  ctx.scale(uPlot.pxRatio, uPlot.pxRatio);
  ctx.font = kLabelFont;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  ctx.lineJoin = 'round';
  const spots = spotsAlong(lines.map((line) => line.path)), boxes = [];
  for (const line of lines) {
    const end = line.path.at(-1), name = shortened(ctx, line.name, room);
    const width = ctx.measureText(name).width + 2;
    const wanted = {x: Math.min(end.x + 8, area.right - width), y: end.y, width};
    const box = placeLabel(wanted, boxes, spots, area);
    const moved = Math.hypot(box.x - wanted.x, box.y - wanted.y) > kLabelHeight;
    drawLabel(ctx, name, box, end, moved, line.color, line.alpha);
    boxes.push(box);
  }
  ctx.restore();
}

// Returns the width of the longest of some names.
function longestLabel(names) {
  const ctx = document.createElement('canvas').getContext('2d');
  ctx.font = kLabelFont;
  return most(names.map((name) => ctx.measureText(name).width));
}
